"""What makes two conversions the same: the digest.

sha256 over the canonical recipe, the names, specs and places of what is read, and the content of every file
that is read. Neither the source's path nor its commit nor the version of hfconvert has a part in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from threading import Event
from typing import Any, Protocol

from hfconvert.planning.shards import Shard
from hfconvert.tensors.box import full
from hfconvert.tensors.source import SourceFile

READ_BYTES = 4 << 20  # read and hashed at once: seldom in the way of the threads that convert
FORMAT = 1  # raised when the same inputs come to mean other output bytes
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


class Watch(Protocol):
    """Sees each part of a file that is read from front to back."""

    def __call__(self, file: SourceFile, start: int, part: memoryview, /) -> None:
        """The part that begins at byte `start`; it is another one after the call."""


def _unwatched(_file: SourceFile, _start: int, _part: memoryview) -> None:
    """Nobody looks."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A local file that was hashed: the sha256 holds while path, size and modification time do."""

    path: str
    size: int
    mtime_ns: int
    sha256: str

    def as_json(self) -> dict[str, Any]:
        """The identity as `hfconvert.json` remembers it."""
        return {
            "path": self.path,
            "size": self.size,
            "mtime_ns": self.mtime_ns,
            "sha256": self.sha256,
        }


Remembered = Mapping[tuple[str, int, int], str]


def digest_of(canonical: Mapping[str, Any], shards: Iterable[Shard], files: Sequence[Any]) -> str:
    """The digest; `files` gives the name of every file within its source, and its content identity."""
    digest = hashlib.sha256()
    head = {"format": FORMAT, "recipe": canonical, "files": files}
    for part in chain([head], _described(shards)):
        digest.update(f"{_CANONICAL.encode(part)}\n".encode())
    return digest.hexdigest()


def remembered(record: Mapping[str, Any] | None) -> Remembered:
    """The hashes that an earlier run recorded; entries of another form are passed over."""
    known: dict[tuple[str, int, int], str] = {}
    files = record.get("files") if record else None
    for item in files if isinstance(files, list) else []:
        try:
            known[item["path"], item["size"], item["mtime_ns"]] = item["sha256"]
        except (TypeError, KeyError):
            continue
    return known


def file_key(file: SourceFile) -> tuple[str, int, int]:
    """What a file is remembered by: path, size and modification time."""
    return (str(file.path.resolve()), file.size, file.mtime_ns)


def remembered_by(identities: Iterable[Identity]) -> Remembered:
    """The same of files that were just hashed."""
    return {(one.path, one.size, one.mtime_ns): one.sha256 for one in identities}


def unknown_bytes(files: Iterable[SourceFile], known: Remembered) -> int:
    """Bytes that must be read to know the content of the files."""
    return sum(file.size for file in files if file_key(file) not in known)


def identify(
    files: Iterable[SourceFile],
    known: Remembered,
    stop: Event | None = None,
    watch: Watch = _unwatched,
) -> tuple[Identity, ...]:
    """Hash every file that is not remembered; `watch` sees the bytes of those."""
    stopped = (stop or Event()).is_set

    def one(file: SourceFile) -> Identity:
        sha256 = known.get(file_key(file)) or content_hash(file.apart(), stopped, watch)
        return Identity(*file_key(file), sha256)

    return tuple(one(file) for file in files)


def content_hash(
    file: SourceFile, stopped: Callable[[], bool] = lambda: False, watch: Watch = _unwatched
) -> str:
    """sha256 of a source file; meaningless once `stopped` says so. UserError (exit 3) where it changed."""
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(min(file.size, READ_BYTES)))
    for start in range(0, file.size, READ_BYTES):
        if stopped():
            break
        part = buffer[: min(READ_BYTES, file.size - start)]
        file.readinto(part, start)
        watch(file, start, part)
        digest.update(part)
    return digest.hexdigest()


@contextmanager
def identifying(
    files: Iterable[SourceFile], known: Remembered, watch: Watch = _unwatched
) -> Iterator[Future[tuple[Identity, ...]]]:
    """`identify` on a thread beside the work; it ends with the block, done or not."""
    stop = Event()
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(identify, files, known, stop, watch)
        finally:
            stop.set()


def _described(shards: Iterable[Shard]) -> Iterator[list[Any]]:
    for shard in shards:
        for placed in shard.tensors:
            tensor = placed.entry.tensor
            places = [
                [part.source.name, part.start, part.stop]
                for part in tensor.needs(full(tensor.extent))
            ]
            spec = tensor.spec
            yield [placed.name, shard.file, spec.dtype.code, list(spec.shape), places]
