"""The Xet store: a folder that hf_xet itself writes and reads when its endpoint is `local://FOLDER`."""

from __future__ import annotations

import itertools
import shutil
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.hub.loopback.blobs import Blob, FileBlob

RECORD = 48
END = b"\xff" * 32
HAS_VERIFICATION, HAS_METADATA = 1 << 31, 1 << 30


@dataclass(eq=False)
class XetStore:
    """The store that clients write to. Its files are read here, but never by opening it for ourselves.

    hf_xet locks the store while it has it open, so content is read from a copy, and only when somebody asks
    for it without Xet.
    """

    folder: Path
    copies: Iterator[int] = field(default_factory=itertools.count)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """The address that clients are told."""
        return f"local://{self.folder}"

    def find(self, sha256: str) -> XetBlob | None:
        """The object of that sha256, or None: as the shards in the store record it."""
        for path in sorted((self.folder / "xet/xorbs/shards").glob("*.mdb")):
            for hashed, size, found in _files(path.read_bytes()):
                if found == sha256:
                    return XetBlob(self, hashed, size, sha256)
        return None

    def add(self, data: bytes) -> XetBlob:
        """Put content into the store, as a client would."""
        import hf_xet

        session: Any = hf_xet.XetSession()
        with session.new_upload_commit(endpoint=self.url) as commit:
            handle = commit.start_upload_bytes(data, sha256=hf_xet.COMPUTE_SHA256)
        info = handle.result().xet_info
        return XetBlob(self, info.hash, info.file_size, info.sha256)

    def extract(self, blob: XetBlob) -> Blob:
        """The content of an object, as a file of its own."""
        import hf_xet

        with self.lock:
            copy = self.folder.with_name(f"{self.folder.name}-copy-{next(self.copies)}")
        shutil.copytree(self.folder / "xet/xorbs", copy / "xet/xorbs")
        session: Any = hf_xet.XetSession()
        target = copy.with_suffix(".bin")
        with session.new_file_download_group(endpoint=f"local://{copy}") as group:
            group.start_download_file(hf_xet.XetFileInfo(blob.hash, blob.size), str(target))
        shutil.rmtree(copy)
        return FileBlob(target)


@dataclass(frozen=True)
class XetBlob:
    """Content that lies in the store under its Xet hash."""

    store: XetStore = field(repr=False)
    hash: str
    size: int
    sha256: str

    def read(self, start: int, stop: int) -> bytes:
        """Bytes of the content, which is taken out of the store the first time."""
        return self._content.read(start, stop)

    @cached_property
    def _content(self) -> Blob:
        return self.store.extract(self)


def _files(shard: bytes) -> Iterator[tuple[str, int, str]]:
    """Xet hash, size and sha256 of every file in a shard that records its sha256.

    After a header of 48 bytes, each file has a record (hash, flags, number of segments), a record for each
    segment (its length at 36), as many for verification if the flags say so, and one for metadata (the
    sha256) likewise; a hash of all ones ends them.
    """
    at = RECORD
    while at + RECORD <= len(shard) and shard[at : at + 32] != END:
        hashed = _text(shard[at : at + 32])
        flags, count = struct.unpack_from("<II", shard, at + 32)
        first = at + RECORD
        starts = range(first, first + count * RECORD, RECORD)
        size = sum(struct.unpack_from("<I", shard, start + 36)[0] for start in starts)
        at = first + count * RECORD * (2 if flags & HAS_VERIFICATION else 1)
        if flags & HAS_METADATA:
            yield hashed, size, _text(shard[at : at + 32])
            at += RECORD


def _text(raw: bytes) -> str:
    return "".join(f"{word:016x}" for word in struct.unpack("<4Q", raw))
