"""The header of a safetensors file, for reader and writer.

Format: 8 bytes little-endian length, that many bytes of UTF-8 JSON (padded with spaces), then the data.
Source: https://github.com/huggingface/safetensors (README, "Format"). Stricter than the format's own reader
where it allows: duplicate keys, holes, overlaps and sizes that differ from dtype times shape are refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hfconvert.errors import Problem, UserError, raise_any, source_problem
from hfconvert.tensors.dtype import STORED
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.source import ByteSource, read

MAX_HEADER = 100_000_000  # bytes; the safetensors library refuses longer ones
MAX_DIMENSIONS = 64  # torch and numpy have no tensors with more
METADATA = "__metadata__"
_PREFIX = 8


@dataclass(frozen=True, slots=True)
class HeaderEntry:
    """One tensor of a file: its spec, and the first of its bytes counted from the start of the file."""

    name: str
    spec: TensorSpec
    start: int


@dataclass(frozen=True, slots=True)
class Header:
    """Everything before the data: tensors in the order of their bytes, and the metadata if there is any."""

    entries: tuple[HeaderEntry, ...]
    metadata: Mapping[str, str] | None
    data_start: int


def read_header(source: ByteSource) -> Header:
    """Read and check the header of a safetensors file. UserError (exit 3) with everything that is wrong."""
    if source.size < _PREFIX:
        raise _refused(source, f"it is {source.size} bytes long, too short for a header")
    length = int.from_bytes(read(source, 0, _PREFIX), "little")
    if length > MAX_HEADER:
        raise _refused(source, f"its header claims {length} bytes, more than {MAX_HEADER} allowed")
    if _PREFIX + length > source.size:
        raise _refused(source, f"its header claims {length} bytes, the file has {source.size}")
    document = _document(source, bytes(read(source, _PREFIX, _PREFIX + length)))
    metadata = _metadata(source, document.pop(METADATA, None))
    return _laid_out(source, document, metadata, _PREFIX + length)


def write_header(tensors: Iterable[tuple[str, TensorSpec]], metadata: Mapping[str, str]) -> bytes:
    """The bytes of a header for tensors that lie packed in the given order; keys of metadata are sorted.

    The data that follows begins at a multiple of 8.
    """
    document: dict[str, Any] = {METADATA: dict(sorted(metadata.items()))} if metadata else {}
    position = 0
    for name, spec in tensors:
        stop = position + spec.nbytes
        document[name] = {
            "dtype": spec.dtype.code,
            "shape": list(spec.shape),
            "data_offsets": [position, stop],
        }
        position = stop
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(_PREFIX + len(text)) % 8)
    return len(text).to_bytes(_PREFIX, "little") + text


def entry_bytes(name: str, spec: TensorSpec) -> int:
    """An upper bound of the header bytes that one tensor takes."""
    digits = sum(len(str(size)) + 1 for size in spec.shape)
    return len(json.dumps(name, ensure_ascii=False).encode()) + digits + 96


def _document(source: ByteSource, text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text.decode("utf-8"), object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise _refused(source, f"its header is no valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise _refused(source, "its header is not a JSON object")
    if not _encodable(document):
        raise _refused(source, "it has a tensor whose name is no valid Unicode")
    return document


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"the key {max(counts, key=lambda key: counts[key])!r} stands twice")
    return document


def _metadata(source: ByteSource, value: object) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise _refused(source, f"{METADATA} is not a map from string to string")
    if not _encodable((*value, *value.values())):
        raise _refused(source, f"{METADATA} holds text that is no valid Unicode")
    return value


def _encodable(texts: Iterable[str]) -> bool:
    """JSON can spell halves of surrogate pairs, UTF-8 cannot."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _laid_out(
    source: ByteSource, document: dict[str, Any], metadata: dict[str, str] | None, data_start: int
) -> Header:
    found = [_entry(source, name, value, data_start) for name, value in document.items()]
    raise_any(item for item in found if isinstance(item, Problem))
    entries = [item for item in found if isinstance(item, HeaderEntry)]
    entries.sort(key=lambda entry: (entry.start, entry.spec.nbytes))
    position = data_start
    for entry in entries:
        if entry.start != position:
            how = "overlap" if entry.start < position else "leave a hole before"
            raise _refused(source, f"malformed: byte ranges {how} tensor {entry.name!r}")
        position += entry.spec.nbytes
    if position != source.size:
        raise _refused(source, f"its tensors end at byte {position}, the file at {source.size}")
    return Header(tuple(entries), metadata, data_start)


def _entry(source: ByteSource, name: str, value: Any, data_start: int) -> HeaderEntry | Problem:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        return _problem(source, f"tensor {name!r} has other fields than dtype, shape, data_offsets")
    dtype = STORED.get(value["dtype"]) if isinstance(value["dtype"], str) else None
    if dtype is None:
        code = repr(value["dtype"])[:40]
        return _problem(source, f"tensor {name!r} has the unknown dtype {code}")
    shape, offsets = value["shape"], value["data_offsets"]
    if not _naturals(shape) or not _naturals(offsets) or len(offsets) != 2:
        return _problem(source, f"tensor {name!r} has a shape or data_offsets that are no sizes")
    if len(shape) > MAX_DIMENSIONS:
        what = f"tensor {name!r} has {len(shape)} dimensions, more than {MAX_DIMENSIONS} allowed"
        return _problem(source, what)
    spec = TensorSpec(dtype, tuple(shape))
    if offsets[1] - offsets[0] != spec.nbytes or spec.elements * dtype.bits % 8:
        found = offsets[1] - offsets[0]
        return _problem(source, f"tensor {name!r} is {spec} but has {found} bytes")
    return HeaderEntry(name, spec, data_start + offsets[0])


def _naturals(value: object) -> bool:
    return isinstance(value, list) and all(
        type(item) is int and 0 <= item < 1 << 63 for item in value
    )


def _problem(source: ByteSource, what: str) -> Problem:
    return source_problem(
        what,
        why="the file is damaged, truncated or no safetensors file",
        do="fetch or write it again",
        subject=source.name,
    )


def _refused(source: ByteSource, what: str) -> UserError:
    return UserError(_problem(source, what))
