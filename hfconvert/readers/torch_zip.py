"""The directory of a zip file, strictly: what it says must agree with the file, or it is refused.

After the zip specification (PKWARE APPNOTE 6.3, sections 4.3 to 4.5), ZIP64 included. Only the directory
and the local headers are read, no data.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from hfconvert.errors import UserError, source_problem
from hfconvert.readers.torch_guarded import Guard, Guarded
from hfconvert.tensors.source import ByteSource, is_distant, read

MAX_ENTRIES = 200_000
MAX_DIRECTORY = 64 << 20
STORED, DEFLATED = 0, 8

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_REFUSED_FLAGS = 0x1 | 0x20 | 0x40 | 0x2000  # encrypted, patched, strongly encrypted, masked
_DESCRIPTOR = 0x8
_UTF8 = 0x800
_NARROW = 0xFFFFFFFF
_TAIL = 64 << 10  # bytes at the end of a zip: its end records, and small directories
_ALIGNMENT = 64  # of the data in the zips of torch
_FAR = 1 << 16  # bytes of the extra field of a header, at most
_FEW = 16  # entries
_OUTSIDE = re.compile(r"^([/\\]|[A-Za-z]:)|(^|[/\\])\.\.([/\\]|$)|\0")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a zip: where its data starts, its bytes there and unpacked, its CRC-32 (0: not recorded)."""

    name: str
    method: int
    start: int
    packed: int
    size: int
    crc: int


@dataclass(frozen=True, slots=True)
class _Record:
    """An entry as the central directory has it."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    header: int


def read_directory(source: ByteSource) -> tuple[ByteSource, Mapping[str, Entry]]:
    """The entries by name, in the order of the directory, and the source to read them from.

    Of a distant source that is another: it reads the header of an entry with its data, where the directory
    tells where that begins. UserError (exit 3) for a zip that lies.
    """
    source.stage([(max(0, source.size - _TAIL), source.size)])
    start, size, count, shift = _find_directory(source)
    source.stage([(start, start + size)])
    data = bytes(read(source, start, start + size))
    records = list(_records(source, data, count, shift))
    guards: list[Guard] = []
    entries = _located(source, records, start, guards)
    if len(entries) != len(records):
        counts = Counter(record.name for record in records)
        twice = next(name for name, count in counts.items() if count > 1)
        raise _refused(source, f"{twice!r} stands twice in its directory")
    return Guarded(source, guards) if guards else source, entries


def _find_directory(source: ByteSource) -> tuple[int, int, int, int]:
    """Start, size and entries of the central directory, and how far all offsets are shifted."""
    end, fields = _find_end(source)
    told = fields[1:7]
    wide = _find_end64(source, end)
    if wide:
        end, told = wide[0], wide[1]
        # torch writes a ZIP64 directory always; fields that fit must be the same in both.
        if any(
            narrow not in (value, 0xFFFF, _NARROW)
            for narrow, value in zip(fields[1:7], told, strict=True)
        ):
            raise _refused(source, "its two directories disagree")
    elif 0xFFFF in told[:4] or _NARROW in told[4:]:
        raise _refused(source, "its ZIP64 directory is missing")
    disk, first_disk, here, count, size, offset = told
    shift = end - size - offset
    if (disk, first_disk) != (0, 0) or here != count:
        raise _refused(source, "it is one part of a zip in several files")
    if shift < 0 or size > MAX_DIRECTORY or count > MAX_ENTRIES or count * _CENTRAL.size > size:
        raise _refused(source, f"its directory of {count} entries in {size} bytes cannot be right")
    return end - size, size, count, shift


def _find_end(source: ByteSource) -> tuple[int, tuple[int, ...]]:
    """Position and fields of the end record: the last whose comment reaches the end of the file."""
    tail_start = max(0, source.size - _END.size - 0xFFFF)
    for begin in (max(0, source.size - _END.size), tail_start):
        tail = bytes(read(source, begin, source.size))
        at = tail.rfind(b"PK\x05\x06")
        while at >= 0:
            if len(tail) - at >= _END.size:
                fields = _END.unpack_from(tail, at)
                if at + _END.size + fields[-1] == len(tail):
                    return begin + at, fields
            at = tail.rfind(b"PK\x05\x06", 0, at)
    raise _refused(source, "it is a zip without an end: it was cut off, or bytes were added to it")


def _find_end64(source: ByteSource, end: int) -> tuple[int, tuple[int, ...]] | None:
    """Position and fields of the ZIP64 end record; None where no locator stands before the end record."""
    at = end - _END64_LOCATOR.size
    if at < 0:
        return None
    mark, _, offset, _ = _END64_LOCATOR.unpack(read(source, at, end))
    if mark != b"PK\x06\x07":
        return None
    # Bytes in front of the zip shift the record; all writers put it right before its locator.
    for position in (offset, at - _END64.size):
        if 0 <= position <= at - _END64.size:
            fields = _END64.unpack(read(source, position, position + _END64.size))
            if fields[0] == b"PK\x06\x06":
                return position, fields[4:]
    raise _refused(source, "its ZIP64 directory is missing")


def _records(source: ByteSource, data: bytes, count: int, shift: int) -> Iterator[_Record]:
    at = 0
    for _ in range(count):
        if at + _CENTRAL.size > len(data):
            raise _refused(source, "its directory ends too early")
        fields = _CENTRAL.unpack_from(data, at)
        flags, method, crc = fields[3], fields[4], fields[7]
        name_size, extra_size, comment_size, disk = fields[10:14]
        name_end = at + _CENTRAL.size + name_size
        raw_name = data[at + _CENTRAL.size : name_end]
        extra = data[name_end : name_end + extra_size]
        at = name_end + extra_size + comment_size
        if fields[0] != b"PK\x01\x02" or at > len(data) or disk not in (0, 0xFFFF):
            raise _refused(source, "its directory is damaged")
        wide = (fields[9], fields[8], fields[16])
        size, packed, header = _widened(source, wide, extra)
        name = _name(source, raw_name, flags)
        if flags & _REFUSED_FLAGS:
            raise _refused(source, f"{name!r} is encrypted or patched")
        yield _Record(name, raw_name, flags, method, crc, packed, size, header + shift)
    if at != len(data):
        raise _refused(source, "its directory has bytes to spare")


def _widened(source: ByteSource, values: tuple[int, ...], extra: bytes) -> Iterable[int]:
    """The values with those that do not fit 32 bits taken from the ZIP64 field, in its fixed order."""
    if _NARROW not in values:
        return values
    field = _zip64_field(extra)
    numbers = iter(struct.unpack(f"<{len(field) // 8}Q", field[: len(field) // 8 * 8]))
    try:
        return [next(numbers) if value == _NARROW else value for value in values]
    except StopIteration:
        raise _refused(source, "its ZIP64 sizes are missing") from None


def _zip64_field(extra: bytes) -> bytes:
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            return extra[at + 4 : at + 4 + size]
        at += 4 + size
    return b""


def _name(source: ByteSource, raw: bytes, flags: int) -> str:
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        if flags & _UTF8:
            raise _refused(source, f"the name {raw!r} is no UTF-8") from None
        name = raw.decode("cp437")
    if not name or _OUTSIDE.search(name):
        raise _refused(source, f"the name {name!r} reaches outside of the archive")
    return name


def _located(
    source: ByteSource, records: list[_Record], directory: int, guards: list[Guard]
) -> dict[str, Entry]:
    """Hold headers against the directory, now or by guards, and the entries against each other."""
    ordered = sorted(records, key=lambda record: record.header)
    stops = [*(r.header for r in ordered[1:]), directory]
    starts = _likely_starts(ordered, stops) if is_distant(source) else None
    if starts is None:
        starts = _checked_starts(source, ordered, stops, directory)
    else:
        guards += [
            Guard(r.header, start, start + r.packed, partial(_check, source, r, directory, start))
            for r, start in zip(ordered, starts, strict=True)
        ]
    begins = {r.header: start for r, start in zip(ordered, starts, strict=True)}
    return {
        r.name: Entry(r.name, r.method, begins[r.header], r.packed, r.size, r.crc) for r in records
    }


def _checked_starts(
    source: ByteSource, ordered: list[_Record], stops: list[int], directory: int
) -> list[int]:
    """Where the data of every entry begins, by its own header."""
    headers = [(r.header, r.header + _LOCAL.size + len(r.raw_name)) for r in ordered]
    source.stage([(start, stop) for start, stop in headers if start < directory])
    starts = []
    for record, stop in zip(ordered, stops, strict=True):
        start = _data_start(source, record, directory)
        if start + record.packed > stop:
            raise _refused(source, f"{record.name!r} overlaps what follows it")
        starts.append(start)
    return starts


def _likely_starts(ordered: list[_Record], stops: list[int]) -> list[int] | None:
    """Where the data of every entry begins, if all are stored as torch stores them; else None.

    torch aligns all data, and what follows them is a descriptor, if the flags say so, and the next header.
    Of few entries it is not asked: chance could let them fit, and reading their headers costs little.
    """
    if len(ordered) <= _FEW:
        return None
    starts = [_likely_start(record, stop) for record, stop in zip(ordered, stops, strict=True)]
    known = [start for start in starts if start is not None]
    return known if len(known) == len(starts) else None


def _likely_start(record: _Record, stop: int) -> int | None:
    name_end = record.header + _LOCAL.size + len(record.raw_name)
    if record.method != STORED:
        return None
    if not record.packed:
        return name_end if name_end <= stop else None
    after = (12, 16, 20, 24) if record.flags & _DESCRIPTOR else (0,)
    starts = (stop - record.packed - size for size in after)
    fits = (one for one in starts if one % _ALIGNMENT == 0 and name_end <= one <= name_end + _FAR)
    return next(fits, None)


def _check(source: ByteSource, record: _Record, directory: int, start: int) -> None:
    if _data_start(source, record, directory) != start:
        raise _refused(source, f"the data of {record.name!r} do not lie where its directory says")


def _data_start(source: ByteSource, record: _Record, directory: int) -> int:
    header_end = record.header + _LOCAL.size
    name_end = header_end + len(record.raw_name)
    if name_end > directory:
        raise _refused(source, f"{record.name!r} lies outside of the file")
    header = bytes(read(source, record.header, name_end))
    mark, _, flags, method, _, _, crc, packed, size, name_size, extra_size = _LOCAL.unpack_from(
        header
    )
    start: int = header_end + name_size + extra_size
    if (
        mark != b"PK\x03\x04"
        or header[_LOCAL.size :] != record.raw_name
        or name_size != len(record.raw_name)
    ):
        raise _refused(
            source, f"the directory and the header of {record.name!r} have different names"
        )
    if _NARROW in (packed, size) and start <= directory:
        extra = bytes(read(source, name_end, start))
        size, packed = _widened(source, (size, packed), extra)
    late = flags & _DESCRIPTOR and (crc, packed, size) == (0, 0, 0)
    told = (record.crc, record.packed, record.size)
    if (
        method != record.method
        or flags & _REFUSED_FLAGS
        or not (late or (crc, packed, size) == told)
    ):
        raise _refused(source, f"the directory and the header of {record.name!r} disagree")
    return start


def _refused(source: ByteSource, what: str) -> UserError:
    return UserError(
        source_problem(
            what,
            why="the file is damaged, incomplete, or made to mislead",
            do="fetch or write it again",
            subject=source.name,
        )
    )
