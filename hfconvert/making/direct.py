"""Write a large file past the page cache, where the system lets it.

Results are written once and rarely read at once, so copying them into the page cache first costs more than
the disk does. Linux takes whole pages at places that are multiples of a page, from memory that lies at such a
place too (`open(2)`, `O_DIRECT`); the ends of a part that are less than a page, and everything where the
file system refuses, are written as usual.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from hfconvert.tensors.pages import PAGE

LEAST = 16 * PAGE  # bytes: below that a copy into the page cache is cheaper
_DIRECT = getattr(os, "O_DIRECT", 0)


class WrittenFile:
    """A new file that several threads write at offsets."""

    def __init__(self, path: Path) -> None:
        self._ordinary = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self._direct = -1
        if _DIRECT:
            with suppress(OSError):  # the file system knows no other way than the page cache
                self._direct = os.open(path, os.O_WRONLY | os.O_CLOEXEC | _DIRECT)

    def write(self, view: memoryview, offset: int) -> None:
        """Write the whole view at an offset. Fastest where it lies in memory as `pages` says."""
        first = offset + -offset % PAGE
        last = (offset + view.nbytes) // PAGE * PAGE
        if self._direct < 0 or last - first < LEAST:
            _write(self._ordinary, view, offset)
            return
        _write(self._ordinary, view[: first - offset], offset)
        try:
            _write(self._direct, view[first - offset : last - offset], first)
        except OSError:  # refused after all: said again, by the ordinary way, where it is a fault
            _write(self._ordinary, view[first - offset : last - offset], first)
        _write(self._ordinary, view[last - offset :], last)

    def close(self) -> None:
        """Close it; nothing is synced."""
        os.close(self._ordinary)
        if self._direct >= 0:
            os.close(self._direct)


def _write(descriptor: int, view: memoryview, offset: int) -> None:
    """`pwrite` may be short."""
    while view.nbytes:
        count = os.pwrite(descriptor, view, offset)
        view, offset = view[count:], offset + count
