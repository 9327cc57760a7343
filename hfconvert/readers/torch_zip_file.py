"""The zip container of torch: `data.pkl` beside one entry for every storage, under any top folder or none.

After `torch.serialization._save` and `_load` (torch 1.6 to 2.13).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zlib_ng.zlib_ng import crc32

from hfconvert.errors import UserError
from hfconvert.findings import Finding, warning
from hfconvert.pickles.machine import BrokenPickleError, Unpickler
from hfconvert.pickles.rebuild_torch import location_of, storage_dtype
from hfconvert.pickles.state import RefusedError
from hfconvert.pickles.stream import Stream
from hfconvert.pickles.values import StorageRef
from hfconvert.readers.torch_found import Checksum, TorchFile, broken, refused
from hfconvert.readers.torch_legacy import inert_unpickler
from hfconvert.readers.torch_sources import flattened, open_entry
from hfconvert.readers.torch_zip import STORED, Entry
from hfconvert.tensors.source import ByteSource, read

_CRC_BYTES = 256 << 10


def read_torch_zip(source: ByteSource, entries: Mapping[str, Entry], top: str) -> TorchFile:
    """Read the checkpoint whose `data.pkl` lies in the folder `top`. UserError (exit 3)."""
    big = is_big(source, entries, top)
    storages = Storages(source, entries, lambda key: f"{top}data/{key}", big=big)
    unpickler = inert_unpickler(source, storages.load)
    tree = load_entry(source, entries[f"{top}data.pkl"], unpickler)
    return TorchFile(
        "zip",
        tree,
        unpickler.imports,
        unpickler.stubbed,
        storages.findings(),
        storages.checksums(),
        packed=storages.packed,
    )


class Storages:
    """Answers the persistent ids of a zip, each with the storage that lies in its entry."""

    def __init__(
        self,
        source: ByteSource,
        entries: Mapping[str, Entry],
        entry_of: Callable[[str], str],
        *,
        big: bool = False,
    ) -> None:
        self._source = source
        self._entries = entries
        self._entry_of = entry_of
        self._big = big
        self._known: dict[tuple[Any, ...], StorageRef] = {}
        self._packed: dict[str, None] = {}

    def load(self, persistent_id: Any) -> StorageRef:
        """`("storage", class, key, location, elements)`; for untyped storages elements are bytes."""
        if (
            type(persistent_id) is not tuple
            or len(persistent_id) != 5
            or persistent_id[0] != "storage"
        ):
            raise RefusedError("it refers to an object that is no storage")
        _, kind, key, location, count = persistent_id
        if type(key) not in (str, int) or type(count) is not int or not 0 <= count < 1 << 60:
            raise RefusedError("it refers to a storage without key or size")
        try:
            dtype = storage_dtype(kind)
        except ValueError as error:
            raise RefusedError(f"it refers to a storage of class {error}") from None
        unit = 1 if dtype is None else dtype.itemsize
        told = (str(key), dtype, count * unit)
        if told not in self._known:
            self._known[told] = self._located(StorageRef(*told, location_of(location)))
        return self._known[told]

    def checksums(self) -> tuple[Checksum, ...]:
        """Of every storage that was asked for, where the zip records one."""
        names = dict.fromkeys(self._entry_of(key) for key, *_ in self._known)
        found = (self._entries[name] for name in names if name in self._entries)
        return tuple(
            Checksum(entry.name, *flattened(self._source, entry.start), entry.size, entry.crc)
            for entry in found
            if entry.crc and entry.method == STORED
        )

    @property
    def packed(self) -> bool:
        """Whether some of the storages that were asked for are compressed."""
        return bool(self._packed)

    def findings(self) -> tuple[Finding, ...]:
        """That some storages are compressed, where they are."""
        if not self._packed:
            return ()
        told = (
            f"{len(self._packed)} storages are compressed; each is unpacked to disk when it is read"
        )
        return (warning("source", self._source.name, told, "torch itself stores them as they are"),)

    def _located(self, storage: StorageRef) -> StorageRef:
        entry = self._entries.get(self._entry_of(storage.key))
        if storage.location == "meta":
            storage.fault = "it lies on the meta device: a shape without data"
        elif entry is None:
            storage.fault = f"its storage {storage.key!r} is not in the file"
        elif entry.size != storage.nbytes:
            told = f"has {entry.size} bytes; the pickle says {storage.nbytes}"
            storage.fault = f"its storage {storage.key!r} {told}"
        else:
            self._open(storage, entry)
        return storage

    def _open(self, storage: StorageRef, entry: Entry) -> None:
        try:
            storage.source, storage.start = open_entry(self._source, entry)
        except UserError as error:
            storage.fault = error.problems[0].what
            return
        storage.swapped = self._big
        if entry.method != STORED:
            self._packed[entry.name] = None


def load_entry(source: ByteSource, entry: Entry, unpickler: Unpickler) -> Any:
    """The value of a pickle that is an entry of a zip; its checksum must be right."""
    source.stage([(entry.start, entry.start + entry.packed)])
    base, start = open_entry(source, entry)
    if (
        entry.crc
        and entry.method == STORED
        and crc_of(source, entry.start, entry.size) != entry.crc
    ):
        raise refused(
            source, f"the checksum of {entry.name!r} is wrong", why="some of its bits were flipped"
        )
    try:
        return unpickler.load(Stream(base, start, start + entry.size))
    except BrokenPickleError as error:
        raise broken(source, error, unpickler) from None


def crc_of(source: ByteSource, start: int, size: int) -> int:
    """The CRC-32 of a range of bytes, read through one small buffer."""
    crc = 0
    buffer = memoryview(bytearray(min(_CRC_BYTES, size)))
    for begin in range(0, size, _CRC_BYTES):
        part = buffer[: size - begin]
        source.readinto(part, start + begin)
        crc = crc32(part, crc)
    return crc


def is_big(source: ByteSource, entries: Mapping[str, Entry], top: str) -> bool:
    """Whether the storages are big-endian: the entry `byteorder` says so (torch 2.1 and later)."""
    entry = entries.get(f"{top}byteorder")
    if entry is None:
        return False
    base, start = open_entry(source, entry)
    said = bytes(read(base, start, start + min(entry.size, 16)))
    if said not in (b"little", b"big"):
        raise refused(source, f"its byte order is {said!r}, neither little nor big")
    return said == b"big"
