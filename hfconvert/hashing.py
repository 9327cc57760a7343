"""sha256 of files: of outputs while they are written, of local sources to know them again."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

BUFFER = 1 << 20  # bytes


class Watermark:
    """How far a file that is written out of order is complete from its beginning; safe between threads."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._ahead: dict[int, int] = {}
        self._complete = 0
        self._ended = False

    def wrote(self, start: int, stop: int) -> None:
        """Bytes `start` to `stop` are in the file."""
        with self._condition:
            self._ahead[start] = stop
            while self._complete in self._ahead:
                self._complete = self._ahead.pop(self._complete)
            self._condition.notify_all()

    def end(self) -> None:
        """Nothing more will be written."""
        with self._condition:
            self._ended = True
            self._condition.notify_all()

    def beyond(self, position: int) -> int:
        """Wait until the file is complete beyond `position`, or ended; how far it is complete."""
        with self._condition:
            self._condition.wait_for(lambda: self._complete > position or self._ended)
            return self._complete


def hash_behind(path: Path, watermark: Watermark) -> str:
    """sha256 of a file that another thread is writing: read again right behind the watermark."""
    return _hash(path, watermark.beyond)


def hash_file(path: Path, stop: Callable[[], bool] = lambda: False) -> str:
    """sha256 of a file. Ends early, with a meaningless value, once `stop` says so."""
    size = path.stat().st_size
    return _hash(path, lambda position: position if stop() else size)


def hash_bytes(content: bytes) -> str:
    """sha256 of a small file's content."""
    return hashlib.sha256(content).hexdigest()


def _hash(path: Path, complete: Callable[[int], int]) -> str:
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(BUFFER))
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        position = 0
        while (limit := complete(position)) > position:
            while position < limit:
                part = buffer[: min(BUFFER, limit - position)]
                count = os.preadv(descriptor, [part], position)
                if count == 0:
                    return digest.hexdigest()
                digest.update(part[:count])
                position += count
    finally:
        os.close(descriptor)
    return digest.hexdigest()
