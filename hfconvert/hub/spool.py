"""Bytes of a remote file that are on local disk: a sparse file without a name, gone when nobody holds it."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path

from hfconvert.errors import UserError, resource_problem
from hfconvert.hub.intervals import Intervals, Range


class Spool:
    """Parts of one file, each at its own offset. Safe to use from several threads.

    The file has no name on disk, so nothing is left behind by a process that is killed. UserError (exit 5)
    where the disk is full.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._held = Intervals()
        self._lock = threading.Lock()
        self._opened: list[int] = []

    @property
    def held_bytes(self) -> int:
        """Bytes that are held."""
        with self._lock:
            return self._held.total

    def missing(self, ranges: Iterable[Range]) -> list[Range]:
        """The parts of the ranges that are not held."""
        with self._lock:
            return [gap for start, stop in ranges for gap in self._held.missing(start, stop)]

    def write(self, offset: int, data: bytes) -> None:
        """Hold these bytes."""
        view, at = memoryview(data), offset
        while view:
            try:
                count = os.pwrite(self._descriptor(), view, at)
            except OSError as error:
                raise self._full(error) from error
            view, at = view[count:], at + count
        with self._lock:
            self._held.add(offset, offset + len(data))

    def read(self, buffer: memoryview, offset: int) -> None:
        """Fill the buffer from what is held."""
        while buffer:
            count = os.preadv(self._descriptor(), [buffer], offset)
            if not count:
                raise EOFError(f"{self._name}: nothing is held at {offset}")
            buffer, offset = buffer[count:], offset + count

    def clear(self) -> None:
        """Hold nothing; the disk has its room back. Not while somebody reads."""
        with self._lock:
            self._held.clear()
            if self._opened:
                os.ftruncate(self._opened[0], 0)

    def _descriptor(self) -> int:
        with self._lock:
            if not self._opened:
                self._folder.mkdir(parents=True, exist_ok=True)
                descriptor, path = tempfile.mkstemp(prefix="hfconvert-", dir=self._folder)
                Path(path).unlink()
                weakref.finalize(self, os.close, descriptor)
                self._opened.append(descriptor)
            return self._opened[0]

    def _full(self, error: OSError) -> UserError:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return UserError(
            resource_problem(
                "the disk is full" if full else f"this cannot be written: {error.strerror}",
                why=f"{self._folder} holds what is read of {self._name}",
                do="free some space, or set TMPDIR to a larger disk",
                subject=str(self._folder),
            )
        )
