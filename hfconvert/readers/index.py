"""Index files: which tensor lies in which shard, as transformers and huggingface_hub write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hfconvert.errors import Problem, UserError, raise_any, source_problem
from hfconvert.findings import Finding, warning
from hfconvert.tensors.box import full
from hfconvert.tensors.lazy import LazyTensor

SUFFIX = ".index.json"
MAX_INDEX = 512 << 20  # bytes; the index of a model with millions of tensors is far smaller

MAX_NAME = 255  # what file systems allow


@dataclass(frozen=True, slots=True)
class Index:
    """An index file: `weight_map` from tensor to shard, and the total size that it claims, if it does."""

    file: str
    weight_map: Mapping[str, str]
    total_size: int | None

    @property
    def shards(self) -> tuple[str, ...]:
        """The shards it names, sorted as their numbers are."""
        return tuple(sorted(set(self.weight_map.values())))


def read_index(root: Path, file: str) -> Index:
    """Read an index file of the folder. UserError (exit 3) where it is no index."""
    path = root / file
    if path.stat().st_size > MAX_INDEX:
        raise UserError(_problem(file, f"it is larger than {MAX_INDEX} bytes"))
    try:
        document: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UserError(_problem(file, f"no valid JSON: {error}")) from error
    weight_map = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise UserError(_problem(file, "it has no weight_map, or an empty one"))
    strange = [name for name, shard in weight_map.items() if not _plain(shard)]
    if strange:
        what = (
            f"tensor {strange[0]!r} is mapped to {weight_map[strange[0]]!r}, no file of the folder"
        )
        raise UserError(_problem(file, what))
    metadata = document.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return Index(file, weight_map, _whole(total))


def check_index(index: Index, held: Mapping[str, Mapping[str, LazyTensor]]) -> tuple[Finding, ...]:
    """Hold an index and what each shard holds against each other, both ways.

    UserError (exit 3) with every difference; a wrong total size is a warning.
    """
    problems = [
        _stale(index, name, f"the index maps it to {shard}, which does not hold it")
        for name, shard in index.weight_map.items()
        if name not in held[shard]
    ]
    problems += [
        _stale(index, name, f"{shard} holds it, but the index does not name it")
        for shard, tensors in held.items()
        for name in tensors
        if name not in index.weight_map
    ]
    raise_any(problems)
    stored = {name: tensor for tensors in held.values() for name, tensor in tensors.items()}
    total = sum(tensor.spec.nbytes for tensor in stored.values())
    if index.total_size in (None, total, _owned(stored)):
        return ()
    message = f"total_size is {index.total_size}, its tensors have {total} bytes"
    hint = "the index that is written has the right figure"
    return (warning("source", index.file, message, hint),)


def _owned(tensors: Mapping[str, LazyTensor]) -> int:
    """Bytes of all the tensors with those that share all their bytes counted once."""
    seen: dict[tuple[object, ...], int] = {}
    for name, tensor in tensors.items():
        ranges = tensor.needs(full(tensor.extent))
        key = tuple((part.source.name, part.start, part.stop) for part in ranges) or (name,)
        seen[key] = tensor.spec.nbytes
    return sum(seen.values())


def _stale(index: Index, name: str, what: str) -> Problem:
    return source_problem(
        what,
        why=f"{index.file} was written for other shards",
        do="fetch index and shards of the same commit",
        subject=name,
        check="names",
    )


def _whole(total: object) -> int | None:
    """A size as some writers have it, a float with no fraction too; None for what is no size."""
    if isinstance(total, float) and total.is_integer():
        return int(total)
    return total if type(total) is int else None


def _plain(shard: object) -> bool:
    """Whether the value names a file of the same folder."""
    return (
        isinstance(shard, str)
        and shard not in {"", ".", ".."}
        and len(shard) <= MAX_NAME
        and not any(character in shard for character in "/\\\0")
    )


def _problem(file: str, what: str) -> Problem:
    return source_problem(
        f"this index cannot be used: {what}",
        why="it is damaged, or was written for another folder",
        do="fetch it again, or name the weight files in source.files",
        subject=file,
    )
