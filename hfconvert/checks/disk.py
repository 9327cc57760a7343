"""Read what was written from the disk, past the page cache, where the system lets it.

It is what the disk holds that is proved, and bytes that are looked at once take no place in memory. Linux
gives whole pages from multiples of a page, into memory that begins at one (`open(2)`, `O_DIRECT`).
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path

from hfconvert.tensors.pages import PAGE, pages
from hfconvert.tensors.source import LocalFile, read

AHEAD = 2  # stretches that are read while one is looked at
STRETCH_BYTES = 3 << 19  # bytes that are read at once
FIRST_BYTES = 3 << 16  # of those that nobody could read ahead
_DIRECT = getattr(os, "O_DIRECT", 0)


class DiskFile:
    """A file on local disk that is read ahead. To be closed. OSError where it is gone."""

    def __init__(self, path: Path, name: str) -> None:
        self.file = LocalFile.of(path, name)
        if not path.is_file():
            raise OSError(errno.EINVAL, "it is no file any longer", str(path))
        self._ahead = ThreadPoolExecutor(AHEAD)
        self._direct = -1
        if _DIRECT:
            with suppress(OSError):  # the file system knows no other way than the page cache
                self._direct = os.open(path, os.O_RDONLY | os.O_CLOEXEC | _DIRECT)

    def stretches(self, start: int, size: int, unit: int) -> Iterator[memoryview]:
        """The bytes from `start` on, in stretches of whole units; the next are read while one is looked at.

        A stretch holds as long as it is the last. UserError (exit 3) where the file is shorter than it was.
        """
        if size <= FIRST_BYTES:
            yield from [memoryview(read(self.file, start, start + size))] if size else []
            return
        parts = iter(_parts(size, unit))
        desks = cycle([pages(STRETCH_BYTES + PAGE) for _ in range(1 + AHEAD)])

        def ahead(part: range) -> Future[memoryview]:
            return self._ahead.submit(self._read, next(desks), start + part.start, len(part))

        coming = deque(map(ahead, islice(parts, AHEAD)))
        while coming:
            here = coming.popleft().result()
            coming.extend(map(ahead, islice(parts, 1)))
            yield here

    def _read(self, memory: memoryview, start: int, size: int) -> memoryview:
        """Bytes `start` to `start + size`, somewhere in that memory."""
        first = start // PAGE * PAGE
        stop = start + size  # read to there at least: where the file ends before, that is said
        last = max(stop, min(-stop // PAGE * -PAGE, self.file.size))
        part = memory[: last - first]
        done = self._read_pages(part, first)
        self.file.readinto(part[done:], first + done)
        return part[start - first : start - first + size]

    def close(self) -> None:
        """Close it, once nothing is read any longer."""
        self._ahead.shutdown()
        if self._direct >= 0:
            os.close(self._direct)

    def _read_pages(self, part: memoryview, first: int) -> int:
        """How many bytes came from the disk; what did not is read as usual, which tells why."""
        whole = part.nbytes // PAGE * PAGE
        if self._direct < 0 or not whole:
            return 0
        try:
            return os.preadv(self._direct, [part[:whole]], first)
        except OSError:
            return 0


def _parts(size: int, unit: int) -> Iterator[range]:
    """Bytes in parts of whole units: a short one, which is soon there, then long ones."""
    short, long = (max(least // unit, 1) * unit for least in (FIRST_BYTES, STRETCH_BYTES))
    yield range(min(short, size))
    for begin in range(short, size, long):
        yield range(begin, min(begin + long, size))
