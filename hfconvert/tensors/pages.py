"""Memory that begins at a page: what is read and written past the page cache has to lie there."""

from __future__ import annotations

import mmap  # noqa: TID251 - memory alone, no file

PAGE = 4096  # bytes: a multiple of every disk's block


def pages(nbytes: int) -> memoryview:
    """`nbytes` and a page more. The system has it back as soon as nobody holds it.

    What is at `offset` of a file is placed from `offset % PAGE` on.
    """
    return memoryview(mmap.mmap(-1, nbytes + PAGE))
