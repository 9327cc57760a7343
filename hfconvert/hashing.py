"""sha256 of files: of outputs while they are written, of local sources to know them again."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

BUFFER = 1 << 20  # bytes


class OrderedHash:
    """sha256 of a file whose parts several threads hold in memory, each hashed when its turn comes.

    Hashing the part that was just read or made costs no second read of the file, and one thread hashes
    while another reads or writes.
    """

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._condition = threading.Condition()
        self._position = 0
        self._broken = False

    def update(self, start: int, part: bytes | memoryview) -> None:
        """Hash the part that begins at byte `start`, after all those before it."""
        with self._condition:
            self._condition.wait_for(lambda: self._position == start or self._broken)
            if self._broken:
                return
        self._digest.update(part)
        with self._condition:
            self._position = start + len(part)
            self._condition.notify_all()

    def abandon(self) -> None:
        """Let nobody wait any longer: a part will never come."""
        with self._condition:
            self._broken = True
            self._condition.notify_all()

    def hexdigest(self) -> str:
        """The sha256 of everything so far."""
        return self._digest.hexdigest()


def hash_file(path: Path) -> str:
    """sha256 of a file. OSError where it cannot be read."""
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(BUFFER))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
    return digest.hexdigest()


def hash_bytes(content: bytes) -> str:
    """sha256 of a small file's content."""
    return hashlib.sha256(content).hexdigest()
