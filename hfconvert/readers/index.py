"""Index files: which tensor lies in which shard, as transformers and huggingface_hub write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hfconvert.errors import Problem, UserError, source_problem

SUFFIX = ".index.json"
MAX_INDEX = 512 << 20  # bytes; the index of a model with millions of tensors is far smaller


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
    return Index(file, weight_map, int(total) if isinstance(total, int | float) else None)


def _plain(shard: object) -> bool:
    """Whether the value names a file of the same folder."""
    return (
        isinstance(shard, str)
        and shard not in {"", ".", ".."}
        and not any(character in shard for character in "/\\\0")
    )


def _problem(file: str, what: str) -> Problem:
    return source_problem(
        f"this index cannot be used: {what}",
        why="it is damaged, or was written for another folder",
        do="fetch it again, or name the weight files in source.files",
        subject=file,
    )
