"""Contents of files: in memory, on disk, or made up as they are read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

BLOCK = 1 << 20


class Blob(Protocol):
    """The content of a file: its size, its sha256 in hex, and any part of it."""

    @property
    def size(self) -> int: ...

    @property
    def sha256(self) -> str: ...

    def read(self, start: int, stop: int) -> bytes:
        """Bytes `start` to `stop`; fewer where the content ends."""


@dataclass(frozen=True)
class MemoryBlob:
    """Bytes in memory."""

    data: bytes = field(repr=False)

    @property
    def size(self) -> int:
        return len(self.data)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def read(self, start: int, stop: int) -> bytes:
        return self.data[start:stop]


@dataclass(frozen=True)
class FileBlob:
    """A file on disk, which nothing changes any more."""

    path: Path

    @cached_property
    def size(self) -> int:
        return self.path.stat().st_size

    @cached_property
    def sha256(self) -> str:
        return digest(self)

    def read(self, start: int, stop: int) -> bytes:
        with self.path.open("rb") as file:
            return os.pread(file.fileno(), stop - start, start)


@dataclass(frozen=True)
class VirtualBlob:
    """Content of any size that is made as it is read: `make(start, stop)` gives the bytes.

    Its sha256 is what it says it is: nobody hashes 100 GB. Parts of it can be real: see `with_parts`.
    """

    size: int
    make: Callable[[int, int], bytes] = field(repr=False)
    sha256: str = "5" * 64

    def read(self, start: int, stop: int) -> bytes:
        return self.make(start, min(stop, self.size))

    @classmethod
    def with_parts(cls, size: int, parts: dict[int, bytes], sha256: str = "5" * 64) -> VirtualBlob:
        """Zeros, with these bytes at these offsets."""

        def make(start: int, stop: int) -> bytes:
            out = bytearray(stop - start)
            for offset, data in parts.items():
                low, high = max(start, offset), min(stop, offset + len(data))
                if low < high:
                    out[low - start : high - start] = data[low - offset : high - offset]
            return bytes(out)

        return cls(size, make, sha256)


def digest(blob: Blob) -> str:
    """The sha256 of the content, read a block at a time."""
    sha256 = hashlib.sha256()
    for start in range(0, blob.size, BLOCK):
        sha256.update(blob.read(start, start + BLOCK))
    return sha256.hexdigest()


def git_oid(data: bytes) -> str:
    """The id that git gives to a file of these bytes: sha1 over `blob <size>`, a zero byte, the content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def pointer(blob: Blob) -> bytes:
    """The Git LFS pointer of a blob: what git itself stores (git-lfs, docs/spec.md)."""
    spec = "version https://git-lfs.github.com/spec/v1"
    return f"{spec}\noid sha256:{blob.sha256}\nsize {blob.size}\n".encode()
