"""Checkpoints of any size whose data is never made: torch's zip layout and safetensors, as virtual blobs."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from math import prod
from typing import Any

from tests.hub.loopback.blobs import VirtualBlob

Shapes = Mapping[str, tuple[int, ...]]
ALIGNMENT = 64
WIDE = 0xFFFFFFFF


def huge_safetensors(shapes: Shapes) -> VirtualBlob:
    """A safetensors file of bfloat16 zeros."""
    header: dict[str, Any] = {}
    at = 0
    for name, shape in shapes.items():
        stop = at + 2 * prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, stop]}
        at = stop
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    head = struct.pack("<Q", len(text)) + text
    return VirtualBlob.with_parts(len(head) + at, {0: head})


def huge_torch(shapes: Shapes) -> VirtualBlob:
    """What `torch.save` writes for a state dict of bfloat16 zeros, with ZIP64 records."""
    entries: dict[str, tuple[int, bytes | None]] = {}
    stream = _state_dict(shapes)
    entries["archive/data.pkl"] = (len(stream), stream)
    for key, shape in enumerate(shapes.values()):
        entries[f"archive/data/{key}"] = (2 * prod(shape), None)
    entries["archive/version"] = (2, b"3\n")
    return _zip(entries)


class _Tensor:
    def __init__(self, key: str, shape: tuple[int, ...]) -> None:
        self.key, self.shape = key, shape


class _Storage:
    def __init__(self, key: str, count: int) -> None:
        self.key, self.count = key, count


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        import torch

        if isinstance(value, _Storage):
            return ("storage", torch.BFloat16Storage, value.key, "cpu", value.count)
        return None

    def reducer_override(self, value: Any) -> Any:
        import torch

        if not isinstance(value, _Tensor):
            return NotImplemented
        strides = tuple(prod(value.shape[axis + 1 :]) for axis in range(len(value.shape)))
        storage = _Storage(value.key, prod(value.shape))
        hooks: OrderedDict[str, Any] = OrderedDict()
        arguments = (storage, 0, value.shape, strides, False, hooks)
        return torch._utils._rebuild_tensor_v2, arguments


def _state_dict(shapes: Shapes) -> bytes:
    out = io.BytesIO()
    tensors = {name: _Tensor(str(key), shape) for key, (name, shape) in enumerate(shapes.items())}
    _Pickler(out, protocol=2).dump(tensors)
    return out.getvalue()


def _zip(entries: Mapping[str, tuple[int, bytes | None]]) -> VirtualBlob:
    """Stored entries, each aligned as torch aligns them; those without content are zeros."""
    parts: dict[int, bytes] = {}
    directory = b""
    at = 0
    for name, (size, content) in entries.items():
        raw, crc = name.encode(), _crc(size, content)
        wide = struct.pack("<HHQQ", 1, 16, size, size)
        padding = -(at + 30 + len(raw) + len(wide) + 4) % ALIGNMENT
        extra = wide + struct.pack("<HH", 0x4246, padding) + b"Z" * padding
        parts[at] = _local(raw, crc, extra)
        directory += _central(raw, crc, size, at)
        at += len(parts[at])
        if content is not None:
            parts[at] = content
        at += size
    parts[at] = directory + _ends(len(entries), len(directory), at)
    return VirtualBlob.with_parts(at + len(parts[at]), parts)


def _crc(size: int, content: bytes | None) -> int:
    """The checksum of the content; of zeros, where they are few enough to count."""
    if content is not None:
        return zlib.crc32(content)
    return zlib.crc32(bytes(size)) if size < 1_000_000 else 0


def _local(raw: bytes, crc: int, extra: bytes) -> bytes:
    head = struct.pack(
        "<I5H3I2H", 0x04034B50, 45, 0x0800, 0, 0, 0, crc, WIDE, WIDE, len(raw), len(extra)
    )
    return head + raw + extra


def _central(raw: bytes, crc: int, size: int, at: int) -> bytes:
    extra = struct.pack("<HHQQQ", 1, 24, size, size, at)
    head = struct.pack("<I6H3I", 0x02014B50, 45, 45, 0x0800, 0, 0, 0, crc, WIDE, WIDE)
    tail = struct.pack("<5H2I", len(raw), len(extra), 0, 0, 0, 0, WIDE)
    return head + tail + raw + extra


def _ends(count: int, length: int, at: int) -> bytes:
    wide = struct.pack("<IQ2H2I4Q", 0x06064B50, 44, 45, 45, 0, 0, count, count, length, at)
    locator = struct.pack("<IIQI", 0x07064B50, 0, at + length, 1)
    end = struct.pack("<I4H2IH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, WIDE, WIDE, 0)
    return wide + locator + end
