"""A file on the Hub as a byte source: read by ranges, a little ahead, or staged on local disk first."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

from hfconvert.errors import UserError, source_problem
from hfconvert.hub.intervals import Range, merged, pieces
from hfconvert.hub.source import Snapshot
from hfconvert.hub.spool import Spool
from hfconvert.hub.wire import Wire

FIRST_READ = 64 * 1024  # bytes of the first read: most headers are shorter
SMALL_READ = 4 * 1024  # bytes of a read elsewhere: one record of a directory
MOST_AHEAD = 1024 * 1024  # reads that follow each other double up to this
GAP = 128 * 1024  # bytes between two ranges that cost less than a request of their own
PIECE = 16 * 1024 * 1024  # bytes of a staged range that travel over one connection
CONNECTIONS = 8


class RemoteFile:
    """A file of a snapshot, as `hfconvert.tensors.source.ByteSource` describes.

    Small reads are kept on local disk with what follows them; large ones (over 1 MiB) go straight to the
    caller, each time anew, so `stage` what will be read block by block. `folder` is where what is kept lies,
    default the system's folder for temporary files. `identity` is the content identity by the Hub's record.
    """

    distant = True

    def __init__(self, snapshot: Snapshot, path: str, *, folder: Path | None = None) -> None:
        record = snapshot.file(path)
        self.name, self.size, self.identity = path, record.size, record.identity
        self.path, self.mtime_ns = Path(f"{snapshot.repo}@{snapshot.commit}", path), 0
        self._wire = Wire(snapshot, record)
        self._spool = Spool(folder or Path(tempfile.gettempdir()), path)
        self._lock = threading.Lock()
        self._next, self._ahead = 0, FIRST_READ // 2  # doubled by the first read

    @property
    def held_bytes(self) -> int:
        """Bytes of it that are on local disk."""
        return self._spool.held_bytes

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Fill the buffer from `offset` on. UserError: exit 3 beyond the end, 4 where the Hub fails."""
        buffer = buffer.cast("B")
        stop = offset + len(buffer)
        if stop > self.size:
            raise self._ends_early(offset)
        if not self._spool.missing([(offset, stop)]):
            self._spool.read(buffer, offset)
        elif len(buffer) > MOST_AHEAD:
            self._read_through(buffer, offset)
        else:
            self._read_ahead(offset, stop)
            self._spool.read(buffer, offset)

    def stage(self, ranges: Sequence[Range]) -> None:
        """Bring these ranges to local disk, over several connections; what is there is not fetched again."""
        inside = [(max(0, start), min(stop, self.size)) for start, stop in ranges]
        self._fetch(self._spool.missing(merged(inside, GAP)))

    def apart(self) -> RemoteFile:
        """Itself: what it keeps serves every reading."""
        return self

    def check_unchanged(self) -> None:
        """Nothing: a commit does not change."""

    def discard(self) -> None:
        """Give the disk back what was staged and kept. Not while somebody reads."""
        self._spool.clear()

    def _read_ahead(self, offset: int, stop: int) -> None:
        with self._lock:
            follows = offset <= self._next <= stop
            self._ahead = min(self._ahead * 2, MOST_AHEAD) if follows else SMALL_READ
            end = min(max(stop, offset + self._ahead), self.size)
            self._next = end
        self._fetch(merged(self._spool.missing([(offset, end)]), GAP))

    def _read_through(self, buffer: memoryview, offset: int) -> None:
        def sink(at: int, data: bytes) -> None:
            buffer[at - offset : at - offset + len(data)] = data

        self._wire.read(offset, offset + len(buffer), sink)

    def _fetch(self, ranges: Iterable[Range]) -> None:
        wanted = pieces(ranges, PIECE)
        if len(wanted) < 2:
            for start, stop in wanted:
                self._wire.read(start, stop, self._spool.write)
            return
        stopped = threading.Event()

        def sink(at: int, data: bytes) -> None:
            if stopped.is_set():
                raise CancelledError
            self._spool.write(at, data)

        pool = ThreadPoolExecutor(min(CONNECTIONS, len(wanted)))
        try:
            for future in [pool.submit(self._wire.read, *one, sink) for one in wanted]:
                future.result()
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)

    def _ends_early(self, offset: int) -> UserError:
        return UserError(
            source_problem(
                f"the file ends at byte {self.size}, within what begins at byte {offset}",
                why="it was cut short before it was uploaded, or its header is wrong",
                do="upload it again, or read another revision",
                subject=self.name,
            )
        )
