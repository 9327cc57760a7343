"""What identifies the content of a file on the Hub, and whether a local file has it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

BUFFER = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Content:
    """sha256 of a large file (kept by LFS or Xet), or the id that git gives a small one (`blob`)."""

    kind: Literal["sha256", "git"]
    digest: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.digest}"


def git_id(content: bytes) -> str:
    """The id that git gives a small file: sha1 over "blob <size>", a zero byte and the content."""
    head = b"blob %d\0" % len(content)
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


def matches(path: Path, size: int, content: Content) -> bool:
    """Whether a local file has that size and content; the content is read only when the size fits.

    OSError where it cannot be read.
    """
    if not path.is_file() or path.stat().st_size != size:
        return False
    # Source of the second: `git hash-object`, sha1 over "blob <size>", a zero byte and the content.
    hashed = (
        hashlib.sha256()
        if content.kind == "sha256"
        else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    )
    buffer = memoryview(bytearray(BUFFER))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            hashed.update(buffer[:count])
    return hashed.hexdigest() == content.digest
