"""Tar archives: their members, and torch's oldest container, which is one.

The headers after POSIX pax and GNU tar; only regular files are members, nothing is ever written from them.
The container after `torch.serialization._legacy_load` (torch before 0.1.10): members `sys_info`, `storages`,
`tensors` and `pickle`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hfconvert.pickles.machine import BrokenPickleError, Unpickler
from hfconvert.pickles.rebuild_torch import MAX_DIMENSIONS, location_of, storage_dtype
from hfconvert.pickles.state import RefusedError
from hfconvert.pickles.stream import EndOfPickleError, Stream
from hfconvert.pickles.values import StorageRef, TensorRef
from hfconvert.readers.torch_found import TorchFile, broken, refused
from hfconvert.readers.torch_legacy import inert_unpickler
from hfconvert.readers.torch_sources import Section
from hfconvert.tensors.dtype import BY_TORCH
from hfconvert.tensors.source import ByteSource, read

MAX_MEMBERS = 10_000
MAX_TABLE = 1_000_000
_BLOCK = 512
_MAX_NAME = 64 << 10
_OUTSIDE = re.compile(r"^([/\\]|[A-Za-z]:)|(^|[/\\])\.\.([/\\]|$)|\0")
_BEFORE = (b"L", b"K", b"x", b"g")  # headers that tell of the next one
_REGULAR = (b"0", b"\0", b"7")
_PAX = re.compile(rb"\d+ (path|size)=([^\n]*)\n")


def is_tar(head: bytes) -> bool:
    """Whether a file begins with a tar header: its checksum is right."""
    return len(head) >= _BLOCK and any(head[:_BLOCK]) and _number(head[148:156]) == _checksum(head)


def read_members(source: ByteSource) -> Mapping[str, Section]:
    """The regular files of a tar, by name. UserError (exit 3) where it is cut off or names reach outside."""
    members: dict[str, Section] = {}
    position = 0
    told: dict[str, str] = {}
    for _ in range(MAX_MEMBERS):
        end = min(position + _BLOCK, source.size)
        header = bytes(read(source, min(position, end), end))
        if len(header) < _BLOCK or not any(header):
            return members
        start, size = position + _BLOCK, _size(source, position, header, told)
        position = start + -(-size // _BLOCK) * _BLOCK
        kind = header[156:157]
        if kind in _BEFORE:
            told = {**told, **_told(source, kind, start, size)}
            continue
        name = _checked(source, told.get("path") or _name(header), members)
        told = {}
        if kind in _REGULAR:
            members[name] = Section(source, f"{source.name}/{name}", start, size)
    raise refused(source, f"it is a tar of more than {MAX_MEMBERS} members")


def is_legacy_tar(members: Mapping[str, Section]) -> bool:
    """Whether a tar is torch's oldest container."""
    return {"pickle", "storages", "sys_info"} <= set(members)


def read_legacy_tar(source: ByteSource, members: Mapping[str, Section]) -> TorchFile:
    """Read torch's oldest container. UserError (exit 3)."""
    if "tensors" not in members:
        raise refused(
            source,
            "it has the members of torch's oldest container, but 'tensors' is missing",
            why="another program wrote it; torch does not read it either",
        )
    reader = _Reader(source)
    try:
        reader.read_storages(members["storages"])
        reader.read_tensors(members["tensors"])
        pickle = members["pickle"]
        tree = reader.unpickler.load(Stream(pickle, 0, pickle.size))
    except BrokenPickleError as error:
        raise broken(source, error, reader.unpickler) from None
    except EndOfPickleError:
        raise refused(source, "it is cut off", why="a download or a copy was interrupted") from None
    return TorchFile("tar", tree, reader.unpickler.imports, reader.unpickler.stubbed)


class _Reader:
    """The objects of an old container by their keys: storages, then tensors."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._objects: dict[int, Any] = {}
        self.unpickler: Unpickler = inert_unpickler(source, self._persistent)

    def read_storages(self, member: Section) -> None:
        stream = Stream(member, 0, member.size)
        for _ in range(self._count(stream)):
            key, location, kind = self._fields(stream, 3)
            try:
                dtype = storage_dtype(kind) or BY_TORCH["uint8"]
            except ValueError as error:
                raise refused(self._source, f"it has a storage of class {error}") from None
            nbytes = int.from_bytes(stream.take(8), "little") * dtype.itemsize
            start = stream.skip(nbytes)
            self._put(
                key, StorageRef(str(key), dtype, nbytes, location_of(location), member, start)
            )
        views = self.unpickler.load(stream)
        for view in views if isinstance(views, list) else ():
            self._put_view(view)

    def read_tensors(self, member: Section) -> None:
        stream = Stream(member, 0, member.size)
        for _ in range(self._count(stream)):
            key, storage_key, _ = self._fields(stream, 3)
            storage = self._objects.get(storage_key) if type(storage_key) is int else None
            dimensions = int.from_bytes(stream.take(8)[:4], "little")
            if not isinstance(storage, StorageRef) or dimensions > MAX_DIMENSIONS:
                raise refused(
                    self._source, "it describes a tensor without storage, or of too many dimensions"
                )
            shape = tuple(self._natural(stream) for _ in range(dimensions))
            strides = tuple(self._natural(stream) for _ in range(dimensions))
            offset = self._natural(stream)
            self._put(key, TensorRef("dense", storage.dtype, shape, strides, offset, storage))

    def _persistent(self, persistent_id: Any) -> Any:
        if type(persistent_id) is tuple and persistent_id:
            return persistent_id[0]
        try:
            return self._objects[int(persistent_id)]
        except (KeyError, TypeError, ValueError):
            raise RefusedError("it refers to a tensor or storage that is not there") from None

    def _count(self, stream: Stream) -> int:
        count = self.unpickler.load(stream)
        if type(count) is not int or not 0 <= count <= MAX_TABLE:
            raise refused(self._source, "its table of storages or tensors has no size")
        return count

    def _fields(self, stream: Stream, count: int) -> tuple[Any, ...]:
        fields = self.unpickler.load(stream)
        if type(fields) is not tuple or len(fields) != count:
            raise refused(self._source, "its table of storages or tensors is damaged")
        return fields

    def _natural(self, stream: Stream) -> int:
        value = int.from_bytes(stream.take(8), "little", signed=True)
        if value < 0:
            raise refused(
                self._source, "it describes a tensor with a negative size, stride or offset"
            )
        return value

    def _put(self, key: Any, made: Any) -> None:
        try:
            number = int(key)
        except (TypeError, ValueError):
            raise refused(self._source, "its table of storages or tensors is damaged") from None
        self._objects[number] = made

    def _put_view(self, view: Any) -> None:
        """A storage that is a part of another: `(key, root, offset, elements)`."""
        match view:
            case (key, int(root), int(offset), int(count)) if offset >= 0 and count >= 0:
                whole = self._objects.get(root)
                if isinstance(whole, StorageRef) and whole.dtype is not None:
                    unit = whole.dtype.itemsize
                    if (offset + count) * unit <= whole.nbytes:
                        start = whole.start + offset * unit
                        self._put(key, replace(whole, nbytes=count * unit, start=start))
                        return
        raise refused(self._source, "a storage of it is a part of another that is not there")


def _number(field: bytes) -> int:
    """Octal digits, or binary where the first bit is set (GNU); -1 for anything else."""
    if field[0] & 0x80:
        return int.from_bytes(field[1:], "big") if field[0] == 0x80 else -1
    digits = field.strip(b" \0")
    return (
        int(digits, 8)
        if digits.isdigit() and not digits.strip(b"01234567")
        else (-1 if digits else 0)
    )


def _checksum(header: bytes) -> int:
    return sum(header[:148]) + 8 * 32 + sum(header[156:_BLOCK])


def _size(source: ByteSource, position: int, header: bytes, told: Mapping[str, str]) -> int:
    size = int(told.get("size") or _number(header[124:136]))
    if _number(header[148:156]) != _checksum(header) or size < 0:
        raise refused(source, f"the tar header at byte {position} is damaged")
    if position + _BLOCK + size > source.size:
        raise refused(
            source, f"it is cut off: a member would end at byte {position + _BLOCK + size}"
        )
    return size


def _checked(source: ByteSource, name: str, members: Mapping[str, Section]) -> str:
    if _OUTSIDE.search(name):
        raise refused(source, f"the member {name!r} reaches outside of the archive")
    if name in members:
        raise refused(source, f"the member {name!r} stands twice in it")
    return name


def _name(header: bytes) -> str:
    name = header[:100].split(b"\0")[0]
    prefix = header[345:500].split(b"\0")[0] if header[257:262] == b"ustar" else b""
    return (prefix + b"/" + name if prefix else name).decode("utf-8", "backslashreplace")


def _told(source: ByteSource, kind: bytes, start: int, size: int) -> dict[str, str]:
    """What a header before a header says of the member: its long name, its size."""
    if size > _MAX_NAME:
        raise refused(source, f"a member has a name or header of {size} bytes")
    data = bytes(read(source, start, start + size))
    if kind == b"L":
        return {"path": data.split(b"\0")[0].decode("utf-8", "backslashreplace")}
    if kind != b"x":
        return {}
    found = {
        key.decode(): value.decode("utf-8", "backslashreplace") for key, value in _PAX.findall(data)
    }
    if not found.get("size", "0").isdigit() or len(found.get("size", "")) > 18:
        raise refused(source, "a member says a size that is none")
    return found
