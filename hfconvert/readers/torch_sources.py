"""Sources within sources: a member of an archive, bytes in memory, data that had to be unpacked to disk."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO

from hfconvert.errors import UserError, resource_problem
from hfconvert.readers.torch_found import refused
from hfconvert.readers.torch_zip import DEFLATED, STORED, Entry
from hfconvert.tensors.source import ByteSource, read

MAX_RATIO = 100  # packed weights shrink to a tenth at best; sparse ones to a hundredth
SMALL = 16 << 20  # bytes that may always be unpacked
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Section:
    """Bytes `start` to `start + size` of another source."""

    base: ByteSource
    name: str
    start: int
    size: int

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Read from the base; never beyond the section."""
        if not 0 <= offset <= self.size - buffer.nbytes:
            raise refused(self, f"a read reaches beyond byte {self.size}")
        self.base.readinto(buffer, self.start + offset)

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Stage them in the base."""
        self.base.stage([(self.start + begin, self.start + end) for begin, end in ranges])


@dataclass(frozen=True)
class Memory:
    """Bytes in memory. Its name is its own: what has one name and one place is taken for one tensor."""

    name: str
    data: bytes

    @property
    def size(self) -> int:
        """How many bytes."""
        return len(self.data)

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Copy them."""
        if not 0 <= offset <= self.size - buffer.nbytes:
            raise refused(self, f"a read reaches beyond byte {self.size}")
        buffer[:] = self.data[offset : offset + buffer.nbytes]

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Nothing: they are here."""


@dataclass(frozen=True)
class Spool:
    """Unpacked bytes in a temporary file without a name, which goes away with the last use of it."""

    name: str
    size: int
    _file: IO[bytes] = field(repr=False, compare=False)

    @classmethod
    def of(cls, name: str, blocks: Iterable[bytes], source: ByteSource, limit: int) -> Spool:
        """Write the blocks. UserError: exit 3 beyond `limit` bytes, exit 5 where the disk is full."""
        with ExitStack() as stack:
            file = stack.enter_context(tempfile.TemporaryFile())
            size = 0
            for block in blocks:
                size += len(block)
                if size > limit:
                    raise _too_big(source, name, limit)
                _write(file, block, name)
            file.flush()
            spool = cls(name, size, file)
            weakref.finalize(spool, file.close)
            stack.pop_all()
        return spool

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Read from the temporary file."""
        while buffer.nbytes:
            count = os.preadv(self._file.fileno(), [buffer], offset)
            if count == 0:
                raise refused(self, f"a read reaches beyond byte {self.size}")
            buffer, offset = buffer[count:], offset + count

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Nothing: they are on disk."""


@dataclass(frozen=True)
class Inflated:
    """A deflated entry of a zip, unpacked to disk at the first read. Its size and CRC-32 are checked."""

    base: ByteSource
    name: str
    start: int
    packed: int
    size: int
    crc: int
    _spool: list[Spool] = field(default_factory=list, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Unpack it if that was not done, then read."""
        with self._lock:
            if not self._spool:
                self._spool.append(self._unpacked())
        self._spool[0].readinto(buffer, offset)

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Stage all of its packed bytes."""
        self.base.stage([(self.start, self.start + self.packed)] if ranges else [])

    def _unpacked(self) -> Spool:
        blocks = deflated(self.base, self.start, self.packed)
        crc = 0

        def checked() -> Iterator[bytes]:
            nonlocal crc
            for block in blocks:
                crc = zlib.crc32(block, crc)
                yield block

        spool = Spool.of(self.name, checked(), self.base, self.size)
        if spool.size != self.size or (self.crc and crc != self.crc):
            raise refused(self, "it does not unpack to what its directory says")
        return spool


def unpack_limit(packed: int) -> int:
    """How many bytes may come out of that many packed bytes."""
    return max(SMALL, packed * MAX_RATIO)


def deflated(source: ByteSource, start: int, packed: int) -> Iterator[bytes]:
    """Unpack raw deflate data, in blocks of bounded size. UserError (exit 3) where it is damaged."""
    engine = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        for chunk in chunks(source, start, start + packed):
            data = chunk
            while data:
                yield engine.decompress(data, _CHUNK)
                data = engine.unconsumed_tail
        yield engine.flush()
    except zlib.error as error:
        raise refused(source, f"packed data is damaged: {error}") from None


def chunks(source: ByteSource, start: int, stop: int) -> Iterator[bytes]:
    """The bytes of a range, a chunk at a time."""
    for begin in range(start, stop, _CHUNK):
        yield bytes(read(source, begin, min(begin + _CHUNK, stop)))


def open_entry(source: ByteSource, entry: Entry) -> tuple[ByteSource, int]:
    """Where the bytes of an entry of a zip can be read: in the zip, or unpacked at the first read.

    UserError (exit 3) for an entry that is packed in another way, or that expands too far.
    """
    if entry.method == STORED and entry.packed == entry.size:
        return source, entry.start
    if entry.method != DEFLATED:
        raise refused(
            source, f"{entry.name!r} is packed in a way (method {entry.method}) that is not known"
        )
    if entry.size > unpack_limit(entry.packed):
        raise refused(
            source,
            f"{entry.name!r} says that {entry.packed} bytes unpack to {entry.size}",
            why="weights do not shrink so far: a file made to fill memory or disk",
            do="do not trust this file",
        )
    label = f"{source.name}/{entry.name}"
    return Inflated(source, label, entry.start, entry.packed, entry.size, entry.crc), 0


def section(source: ByteSource, entry: Entry) -> ByteSource:
    """An entry of a zip as a source of its own. UserError as for `open_entry`."""
    base, start = open_entry(source, entry)
    return (
        Section(base, f"{source.name}/{entry.name}", start, entry.size) if base is source else base
    )


def flattened(source: ByteSource, start: int) -> tuple[ByteSource, int]:
    """The same place in the source that a section is part of."""
    while isinstance(source, Section):
        start += source.start
        source = source.base
    return source, start


def _too_big(source: ByteSource, name: str, limit: int) -> UserError:
    return refused(
        source,
        f"{name} unpacks to more than {limit} bytes",
        why="it expands far beyond what weights do: a file made to fill the disk",
        do="do not trust this file; unpack it yourself if it is right",
    )


def _write(file: IO[bytes], block: bytes, name: str) -> None:
    try:
        file.write(block)
    except OSError as error:
        free = shutil.disk_usage(tempfile.gettempdir()).free
        raise UserError(
            resource_problem(
                f"cannot unpack it to disk: {error.strerror}",
                why=f"{free} bytes are free in {tempfile.gettempdir()}",
                do="set TMPDIR to a folder with more room",
                subject=name,
            )
        ) from error
