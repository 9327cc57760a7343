"""Hold the bytes of a zip's storages against the checksums that its directory records.

torch itself does not look at them when it loads: a flipped bit passes as another value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

from hfconvert.errors import Problem, source_problem
from hfconvert.readers.torch_found import Checksum
from hfconvert.readers.torch_zip_file import crc_of
from hfconvert.tensors.source import ByteRange


def flipped(
    checksums: Iterable[Checksum], stopped: Callable[[], bool] = lambda: False
) -> list[Problem]:
    """A problem (exit 3) for every storage whose bytes are not those that were written. Reads all of them.

    Ends early once `stopped` says so.
    """
    return [
        source_problem(
            f"the checksum of {checksum.name!r} is wrong",
            why="some of its bits were flipped on disk or on the way",
            do="fetch the file again",
            subject=checksum.source.name,
        )
        for checksum in checksums
        if not stopped() and crc_of(checksum.source, checksum.start, checksum.size) != checksum.crc
    ]


@contextmanager
def looking_for_flips(checksums: Iterable[Checksum]) -> Iterator[Future[list[Problem]]]:
    """`flipped` on a thread beside the work; it ends with the block, done or not."""
    stop = Event()
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(flipped, checksums, stop.is_set)
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
