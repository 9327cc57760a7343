"""Where bytes come from: one local file, or anything else with a size that can be read at an offset."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from hfconvert.errors import Problem, UserError, exhausted_problem, source_problem


class ByteRange(NamedTuple):
    """Bytes `start` to `stop` of a source."""

    source: ByteSource
    start: int
    stop: int


class ByteSource(Protocol):
    """Bytes of known size, readable at any offset and from several threads at once."""

    @property
    def name(self) -> str:
        """How messages call it, such as `pytorch_model-00001-of-00002.bin`."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Fill the whole buffer with the bytes from `offset` on; UserError (exit 3) where they end early."""

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Bring these byte ranges close before they are read. Local files have nothing to do."""


def is_distant(source: ByteSource) -> bool:
    """Whether every read of it that was not staged costs a request, so that few reads are worth some care.

    Such a source says so itself, by an attribute `distant` that is true.
    """
    return bool(getattr(source, "distant", False))


class SourceFile(ByteSource, Protocol):
    """A file of a source, local or on the Hub: bytes, and what tells whether it is still the same."""

    @property
    def path(self) -> Path:
        """Where it lies, for messages; no file need be there."""

    @property
    def mtime_ns(self) -> int:
        """Time of its last change; 0 where content is pinned otherwise."""

    def apart(self) -> SourceFile:
        """The same file for one reading from beginning to end."""

    def check_unchanged(self) -> None:
        """UserError (exit 3) where the file is not the one that was first seen."""


@dataclass(frozen=True)
class LocalFile:
    """A file on local disk, known by its size and modification time when it was first seen.

    It is opened once, at the first read, never for writing and never mapped with mmap: a truncated or
    networked file is then an error and not a signal.
    """

    path: Path
    name: str
    size: int
    mtime_ns: int
    _opened: list[int] = field(default_factory=list, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @classmethod
    def of(cls, path: Path, name: str | None = None) -> LocalFile:
        """Look at the file. OSError where it cannot be."""
        stat = path.stat()
        return cls(path, name or path.name, stat.st_size, stat.st_mtime_ns)

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Fill the buffer from `offset` on, in as many reads as the system needs."""
        while buffer.nbytes:
            try:
                count = os.preadv(self._descriptor(), [buffer], offset)
            except OSError as error:
                raise UserError(self._unreadable(error)) from error
            if count == 0:
                raise UserError(self._changed(f"it ends at byte {offset}"))
            buffer, offset = buffer[count:], offset + count

    def apart(self) -> LocalFile:
        """The same file, opened anew at its first read and closed as soon as nobody holds it any longer.

        For what is read once from beginning to end: thousands of files stay open otherwise.
        """
        return LocalFile(self.path, self.name, self.size, self.mtime_ns)

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Nothing: the file is local."""

    def check_unchanged(self) -> None:
        """UserError (exit 3) where the file is not the one that was first seen."""
        try:
            stat = self.path.stat()
        except OSError as error:
            raise UserError(self._changed(error.strerror or str(error))) from error
        if (stat.st_size, stat.st_mtime_ns) != (self.size, self.mtime_ns):
            raise UserError(self._changed("its size or modification time is another"))

    def _descriptor(self) -> int:
        with self._lock:
            if not self._opened:
                descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
                weakref.finalize(self, os.close, descriptor)
                self._opened.append(descriptor)
            return self._opened[0]

    def _unreadable(self, error: OSError) -> Problem:
        return exhausted_problem(error) or source_problem(
            f"the file cannot be read: {error.strerror}",
            why="it has no read permission, or the disk under it fails",
            do="make it readable, or fetch it again",
            subject=str(self.path),
        )

    def _changed(self, how: str) -> Problem:
        return source_problem(
            f"the file changed while it was read: {how}",
            why="something else writes to it",
            do="run again once it is complete",
            subject=str(self.path),
        )


def read(source: ByteSource, start: int, stop: int) -> bytearray:
    """Bytes `start` to `stop` of a source, as one new buffer."""
    buffer = bytearray(stop - start)
    source.readinto(memoryview(buffer), start)
    return buffer
