"""Hold the bytes of a zip's storages against the checksums that its directory records.

torch itself does not look at them when it loads: a flipped bit passes as another value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from zlib_ng.zlib_ng import crc32

from hfconvert.errors import Problem, source_problem
from hfconvert.readers.torch_found import Checksum
from hfconvert.readers.torch_zip_file import crc_of
from hfconvert.tensors.source import ByteRange, LocalFile, SourceFile


def flipped(
    checksums: Iterable[Checksum], stopped: Callable[[], bool] = lambda: False
) -> list[Problem]:
    """A problem (exit 3) for every storage whose bytes are not those that were written. Reads all of them.

    Ends early once `stopped` says so.
    """
    return [
        _flip(checksum)
        for checksum in checksums
        if not stopped() and crc_of(checksum.source, checksum.start, checksum.size) != checksum.crc
    ]


def _flip(checksum: Checksum) -> Problem:
    return source_problem(
        f"the checksum of {checksum.name!r} is wrong",
        why="some of its bits were flipped on disk or on the way",
        do="fetch the file again",
        subject=checksum.source.name,
    )


@dataclass(slots=True)
class _Run:
    """How far the bytes of a storage have passed by, and their CRC-32 up to there."""

    checksum: Checksum
    seen: int = 0
    crc: int = 0


class Passing:
    """Checksums of storages in files that are read for another reason, each from front to back.

    Where the source is hashed anyway, a reading is saved; what did not pass by is read at the end.
    """

    def __init__(self, checksums: Iterable[Checksum]) -> None:
        self._runs: dict[Path, list[_Run]] = {}
        self._elsewhere: list[Checksum] = []
        for one in checksums:
            if isinstance(one.source, LocalFile):
                self._runs.setdefault(one.source.path, []).append(_Run(one))
            else:
                self._elsewhere.append(one)
        self._begun: dict[Path, int] = {}  # the first storage that is not over
        for runs in self._runs.values():
            runs.sort(key=lambda run: run.checksum.start)

    def see(self, file: SourceFile, start: int, part: memoryview) -> None:
        """The next part of a file."""
        runs, stop = self._runs.get(file.path, ()), start + part.nbytes
        first = self._begun.get(file.path, 0)
        for run in runs[first:]:
            begin = run.checksum.start
            if begin >= stop:
                break
            behind = start > begin + run.seen  # something before it did not pass by
            if run.seen < run.checksum.size and not behind:
                piece = part[begin + run.seen - start : begin + run.checksum.size - start]
                run.crc = crc32(piece, run.crc)
                run.seen += piece.nbytes
        while first < len(runs) and runs[first].checksum.start + runs[first].checksum.size <= stop:
            first += 1
        self._begun[file.path] = first

    def flips(self, stopped: Callable[[], bool] = lambda: False) -> list[Problem]:
        """As `flipped`, for all of them."""
        runs = [run for file in self._runs.values() for run in file]
        seen = [run for run in runs if run.seen == run.checksum.size]
        unseen = [run.checksum for run in runs if run.seen != run.checksum.size]
        return [
            *(_flip(run.checksum) for run in seen if run.crc != run.checksum.crc),
            *flipped((*unseen, *self._elsewhere), stopped),
        ]


@contextmanager
def looking_for_flips(passing: Passing, after: Future[Any]) -> Iterator[Future[list[Problem]]]:
    """`passing.flips` on a thread, after the files were read; it ends with the block, done or not."""
    stop = Event()

    def look() -> list[Problem]:
        wait([after])
        return passing.flips(stop.is_set)

    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(look)
        finally:
            stop.set()


def covering(checksums: Iterable[Checksum], ranges: Iterable[ByteRange]) -> Iterator[Checksum]:
    """The checksums of storages in which some of the ranges begin: what is not read is not judged."""
    starts: dict[str, list[int]] = {}
    for part in ranges:
        starts.setdefault(part.source.name, []).append(part.start)
    for places in starts.values():
        places.sort()
    for one in checksums:
        places = starts.get(one.source.name, [])
        if bisect_left(places, one.start) < bisect_left(places, one.start + one.size):
            yield one
