"""The formats before zip: a stream of pickles with the storages behind them, and any other pickle.

After `torch.serialization._legacy_save` and `_legacy_load` (torch 0.1.10 to 2.13): magic number, protocol
version, facts of the system, the object, the keys of its storages, then for each key a count of elements
(8 bytes) and the elements. Storages are found by seeking and never read here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from hfconvert.findings import Finding, warning
from hfconvert.pickles.machine import BrokenPickleError, Unpickler
from hfconvert.pickles.rebuild_torch import location_of, storage_dtype
from hfconvert.pickles.rebuilds import REBUILDS
from hfconvert.pickles.state import PersistentLoad, RefusedError
from hfconvert.pickles.stream import Stream
from hfconvert.pickles.values import Global, Span, StorageRef
from hfconvert.readers.torch_found import TorchFile, broken, refused
from hfconvert.readers.torch_guarded import Guard, Guarded
from hfconvert.readers.torch_sources import Memory, Section
from hfconvert.tensors.source import ByteSource, is_distant, read

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
LOAD_FROM_BYTES = Global("torch.storage", "_load_from_bytes")


def read_torch_pickle(source: ByteSource) -> TorchFile | None:
    """A legacy stream, or plain pickles one after the other; None where the file begins with neither.

    UserError (exit 3) for a pickle that is broken or cut off.
    """
    unpickler = inert_unpickler(source)
    stream = Stream(source, 0, source.size)
    try:
        first = unpickler.load(stream)
    except BrokenPickleError as error:
        if not _begins_as_pickle(source) and not _asks_for_danger(unpickler):
            return None
        raise broken(source, error, unpickler) from None
    if type(first) is int and first == MAGIC:
        tree, findings = LegacyStream(source, stream, unpickler).read()
        return TorchFile("legacy", tree, unpickler.imports, unpickler.stubbed, findings)
    findings = _read_rest(source, stream, unpickler)
    return TorchFile("pickle", first, unpickler.imports, unpickler.stubbed, findings)


class LegacyStream:
    """The part of a legacy stream behind its magic number."""

    def __init__(self, source: ByteSource, stream: Stream, unpickler: Unpickler) -> None:
        self._source = source
        self._stream = stream
        self._unpickler = unpickler.another(self._persistent)
        self._roots: dict[Any, StorageRef] = {}
        self._views: list[tuple[StorageRef, Any, int]] = []

    def read(self) -> tuple[Any, tuple[Finding, ...]]:
        """The object, its storages placed. UserError (exit 3) where the file is cut off or inconsistent."""
        version, facts = self._load(), self._load()
        if version != PROTOCOL:
            told = version if type(version) is int else "unknown"
            raise refused(
                self._source, f"it is a legacy file of protocol {told}; only {PROTOCOL} is known"
            )
        tree, keys = self._load(), self._load()
        swapped = isinstance(facts, Mapping) and facts.get("little_endian") is False
        end = self._place(keys, swapped=swapped)
        spare = self._source.size - end
        told = f"{spare} bytes follow its last storage; they are not read"
        return tree, (warning("source", self._source.name, told),) if spare else ()

    def _load(self) -> Any:
        try:
            return self._unpickler.load(self._stream)
        except BrokenPickleError as error:
            raise broken(self._source, error, self._unpickler) from None

    def _persistent(self, persistent_id: Any) -> Any:
        if type(persistent_id) is not tuple or len(persistent_id) < 2:
            raise RefusedError("it refers to an object that is no storage")
        if persistent_id[0] == "module":
            return persistent_id[1]
        if persistent_id[0] != "storage" or len(persistent_id) not in (5, 6):
            raise RefusedError("it refers to an object that is no storage")
        _, kind, key, location, count, *view = persistent_id
        root = self._root(kind, key, location, count)
        return self._view(root, key, view[0]) if view and view[0] is not None else root

    def _root(self, kind: Any, key: Any, location: Any, count: Any) -> StorageRef:
        if type(key) not in (str, int) or type(count) is not int or not 0 <= count < 1 << 60:
            raise RefusedError("it refers to a storage without key or size")
        try:
            dtype = storage_dtype(kind)
        except ValueError as error:
            raise RefusedError(f"it refers to a storage of class {error}") from None
        unit = 1 if dtype is None else dtype.itemsize
        fresh = StorageRef(str(key), dtype, count * unit, location_of(location))
        known = self._roots.setdefault(key, fresh)
        if known.dtype is not dtype or known.nbytes != fresh.nbytes:
            raise RefusedError(f"it gives storage {key!r} two types or sizes")
        return known

    def _view(self, root: StorageRef, key: Any, view: Any) -> StorageRef:
        """A storage that is a part of another: `(key, offset, size)`, as torch before 0.4 has them."""
        match view:
            case (str(), int(offset), int(size)) if offset >= 0 and size >= 0:
                unit = 1 if root.dtype is None else root.dtype.itemsize
                part = replace(root, nbytes=size * unit)
                self._views.append((part, key, offset * unit))
                return part
        raise RefusedError("it refers to a part of a storage in another form")

    def _place(self, keys: Any, *, swapped: bool) -> int:
        """Give every storage its place; returns the byte where the last one ends."""
        if type(keys) is not list:
            raise refused(self._source, "its list of storages is missing")
        position = self._stream.position
        guards: list[Guard] = []
        for number, key in enumerate(keys):
            root = self._roots.get(key) if type(key) in (str, int) else None
            if root is None or root.source is not None:
                raise refused(
                    self._source, f"its storage {number} has no description, or stands twice"
                )
            end = position + 8 + root.nbytes
            if end > self._source.size:
                raise self._cut_off(number, len(keys), end)
            check = partial(self._count, root, number, position)
            if is_distant(self._source):
                guards.append(Guard(position, position + 8, end, check))
            else:
                check()
            root.source, root.start, root.swapped = self._source, position + 8, swapped
            position = end
        if guards:
            guarded = Guarded(self._source, guards)
            for root in self._roots.values():
                root.source = guarded if root.source is not None else None
        self._finish(keys)
        return position

    def _count(self, root: StorageRef, number: int, position: int) -> None:
        """Hold the count of elements before a storage against its description. UserError (exit 3)."""
        unit = 1 if root.dtype is None else root.dtype.itemsize
        counted = int.from_bytes(read(self._source, position, position + 8), "little")
        if counted * unit != root.nbytes:
            told = f"has {counted} elements in the file, {root.nbytes // unit} in its description"
            raise refused(self._source, f"its storage {number} {told}")

    def _finish(self, keys: list[Any]) -> None:
        for root in self._roots.values():
            if root.source is None:
                root.fault = f"its storage {root.key!r} is not in the file"
        for part, key, offset in self._views:
            root = self._roots[key]
            if offset + part.nbytes > root.nbytes:
                part.fault = f"its storage is a part of {root.key!r} that reaches beyond its end"
            part.source, part.start, part.swapped = root.source, root.start + offset, root.swapped

    def _cut_off(self, number: int, count: int, end: int) -> Exception:
        missing = f"storage {number + 1} of {count} would end at byte {end}, the file at {self._source.size}"
        return refused(
            self._source, f"it is cut off: {missing}", why="a download or a copy was interrupted"
        )


def inert_unpickler(source: ByteSource, persistent: PersistentLoad | None = None) -> Unpickler:
    """An unpickler that also reads storages that plain `pickle.dump` wrote: legacy streams in strings."""
    plain = Unpickler(REBUILDS)
    taught = plain.another(persistent)
    names = (f"{source.name}: storage {number}" for number in itertools.count())
    taught.teach(LOAD_FROM_BYTES, lambda args: _nested(args, source, names, plain.another()))
    return taught


def _nested(
    args: tuple[Any, ...], source: ByteSource, names: Iterator[str], unpickler: Unpickler
) -> StorageRef:
    inner: ByteSource
    match args:
        case (bytes() as data,):
            inner = Memory(next(names), data)  # no two of one name: it tells what is shared
        case (Span(base, start, size),):
            inner = Section(base, source.name, start, size)
        case _:
            raise TypeError(type(args))
    stream = Stream(inner, 0, inner.size)
    try:
        magic = unpickler.load(stream)
    except BrokenPickleError as error:
        raise ValueError(str(error)) from error
    tree = LegacyStream(inner, stream, unpickler).read()[0] if magic == MAGIC else None
    if not isinstance(tree, StorageRef):
        raise TypeError(type(tree))
    return tree


def _read_rest(source: ByteSource, stream: Stream, unpickler: Unpickler) -> tuple[Finding, ...]:
    """Go through what follows the first pickle, since a loader that reads on would obey it."""
    count = 0
    while stream.left:
        try:
            unpickler.load(stream)
        except BrokenPickleError:
            break
        count += 1
    told = f"{count} more pickles follow the first; they are judged, not used"
    return (warning("pickle", source.name, told),) if count else ()


def _begins_as_pickle(source: ByteSource) -> bool:
    head = Stream(source, 0, source.size).take(min(2, source.size))
    return len(head) == 2 and head[0] == 0x80 and head[1] in range(2, 6)


def _asks_for_danger(unpickler: Unpickler) -> bool:
    return any(item.verdict == "dangerous" for item in unpickler.imports)
