"""How tensors are divided into safetensors files, and where each lies in its file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hfconvert.findings import Finding, warning
from hfconvert.tensors.box import full
from hfconvert.tensors.checkpoint import Checkpoint, Entry
from hfconvert.tensors.header import entry_bytes, write_header

COPIED = 3 << 20  # bytes that a worker makes at once where it only reads them
COMPUTED = 3 << 19  # where values need room of their own too
WORKERS = 2
BUFFERS = 2  # blocks that a worker holds: one is made while the other is on its way to the disk
HEADER_BYTES = 48 << 20  # a header stays below half of what the safetensors library accepts


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor of a shard, and the first of its bytes counted from the start of the file."""

    name: str
    entry: Entry
    start: int


@dataclass(frozen=True, slots=True)
class Shard:
    """One safetensors file: its header, and its tensors in the order of their bytes."""

    file: str
    header: bytes
    tensors: tuple[Placed, ...]
    size: int


def scratch_of(shard: Shard) -> int:
    """Bytes that the costliest of its tensors takes beside the block that is made."""
    return max((placed.entry.tensor.scratch for placed in shard.tensors), default=0)


def block_of(shard: Shard) -> int:
    """Bytes of the shard that a worker makes at once: large ones are faster, and memory is bounded."""
    return COMPUTED if scratch_of(shard) else COPIED


@dataclass(frozen=True, slots=True)
class TextFile:
    """A small file that is written as a whole, such as the index."""

    file: str
    content: bytes


def shard_files(
    checkpoint: Checkpoint, stem: str, limit: int, metadata: Mapping[str, str]
) -> tuple[tuple[Shard, ...], tuple[TextFile, ...], tuple[Finding, ...]]:
    """Divide tensors into files of at most `limit` bytes of data each, in the order of the checkpoint.

    A tensor larger than the limit gets a file of its own, with a warning. One file needs no index.
    """
    groups = list(_groups(checkpoint, limit))
    names = _file_names(stem, len(groups))
    shards = tuple(_shard(file, group, metadata) for file, group in zip(names, groups, strict=True))
    texts = (_index(stem, shards),) if len(shards) > 1 else ()
    return shards, texts, tuple(_oversize(groups, limit))


def output_stem(stem: str, *, transformers: bool) -> str:
    """The stem of the output's name, from that of the source.

    Libraries look for `model` (transformers), `open_clip_model` (OpenCLIP) or the source's own stem.
    """
    if stem.endswith("open_clip_pytorch_model"):
        return "open_clip_model"
    if stem == "pytorch_model":
        return "model"
    if stem.startswith("pytorch_model."):
        return "model" + stem.removeprefix("pytorch_model")
    if stem in {"adapter_model", "diffusion_pytorch_model"}:
        return stem
    return "model" if transformers else stem


def _groups(checkpoint: Checkpoint, limit: int) -> Iterator[list[tuple[str, Entry]]]:
    group: list[tuple[str, Entry]] = []
    size = header = 0
    for name, entry in checkpoint.items():
        nbytes, text = entry.tensor.spec.nbytes, entry_bytes(name, entry.tensor.spec)
        if group and (size + nbytes > limit or header + text > HEADER_BYTES):
            yield group
            group, size, header = [], 0, 0
        group.append((name, entry))
        size, header = size + nbytes, header + text
    if group:
        yield group


def _file_names(stem: str, count: int) -> list[str]:
    if count == 1:
        return [f"{stem}.safetensors"]
    return [f"{stem}-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)]


def _shard(file: str, group: list[tuple[str, Entry]], metadata: Mapping[str, str]) -> Shard:
    """Lay tensors out by item size, largest first, then by their place in the source.

    All data is then aligned, and reading is sequential.
    """
    ordered = sorted(group, key=_order)
    header = write_header(((name, entry.tensor.spec) for name, entry in ordered), metadata)
    placed, position = [], len(header)
    for name, entry in ordered:
        placed.append(Placed(name, entry, position))
        position += entry.tensor.spec.nbytes
    return Shard(file, header, tuple(placed), position)


def _order(item: tuple[str, Entry]) -> tuple[int, str, int, str]:
    name, entry = item
    tensor = entry.tensor
    first = next(iter(tensor.needs(full(tensor.extent))), None)
    place = (first.source.name, first.start) if first else ("", 0)
    return (-tensor.spec.dtype.itemsize, *place, name)


def _index(stem: str, shards: Iterable[Shard]) -> TextFile:
    """The index: `total_size` is the bytes of all stored tensors, headers not counted."""
    weight_map = {placed.name: shard.file for shard in shards for placed in shard.tensors}
    total = sum(placed.entry.tensor.spec.nbytes for shard in shards for placed in shard.tensors)
    document = {
        "metadata": {"total_size": total},
        "weight_map": dict(sorted(weight_map.items())),
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return TextFile(f"{stem}.safetensors.index.json", text.encode())


def _oversize(groups: Iterable[list[tuple[str, Entry]]], limit: int) -> Iterator[Finding]:
    for group in groups:
        for name, entry in group:
            if entry.tensor.spec.nbytes > limit:
                message = f"is {entry.tensor.spec.nbytes} bytes, above max_shard_size of {limit}"
                hint = "a tensor is never split; its file is larger than the limit"
                yield warning("plan", name, message, hint)
