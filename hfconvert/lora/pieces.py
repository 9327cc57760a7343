"""Modules that the files of a base hold otherwise than its class: joined, cut up, with rows rearranged.

transformers splits and joins layers when it loads them (query, key and value in one tensor of the files), so
that an adapter may be for rows of a tensor, or for rows of several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfconvert.errors import Problem
from hfconvert.keymap.fold import listed
from hfconvert.lora.low_rank_shares import is_plain
from hfconvert.lora.place import Place, Share
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.reorder import Take
from hfconvert.tensors.simplify import window

Rows = NDArray[np.int64]
_FACTORS = {"lora_A.weight", "lora_B.weight"}


class Piece(NamedTuple):
    """Rows of a weight that lie in one tensor of the files: side by side there, from row `first` on.

    `rows` are their numbers in the weight of the class.
    """

    name: str
    first: int
    rows: Rows


class _Source(NamedTuple):
    """Of each row of a weight, the tensor of the files that it is in, and its number there."""

    name: NDArray[np.object_]
    row: Rows


def pieces_of(recipe: Sequence[Any], shapes: Mapping[str, tuple[int, ...]]) -> list[Piece]:
    """The pieces of a weight that transformers makes by a recipe; empty where rows alone do not tell."""
    found = _source(recipe, shapes)
    if found is None:
        return []
    pieces = []
    for name in dict.fromkeys(found.name):
        mine = np.flatnonzero(found.name == name)
        mine = mine[np.argsort(found.row[mine], kind="stable")]
        first, last = found.row[mine[0]], found.row[mine[-1]]
        if last - first + 1 != len(mine):
            return []
        pieces.append(Piece(str(name), int(first), mine))
    return pieces


def share_of_pieces(place: Place, pieces: Sequence[Piece]) -> Share:
    """The update of a plain LoRA, piece by piece; a problem where it is of another kind."""
    share = Share()
    if not is_plain(place) or set(place.part.tensors) != _FACTORS:
        share.problems.append(_not_plain(place, pieces))
        return share
    names = place.pair(share, "lora_A", "lora_B")
    if names is not None:
        a, b = (place.tensor(name) for name in names)
        term = place.term("low-rank", {"A": a, "B": b}, r=place.rank(share, a.spec.shape[0]))
        for piece in pieces:
            part = {"A": a, "B": _taken(b, piece.rows)}
            share.terms.append((piece.name, replace(term, tensors=part, first=piece.first)))
    return share


def _not_plain(place: Place, pieces: Sequence[Piece]) -> Problem:
    where = listed(sorted({piece.name for piece in pieces}))
    return place.problem(
        f"only plain LoRA is merged into rows of a tensor, which these are in the files: {where}",
        why=f"{place.settings.peft_type} with such fields works on the module as a whole",
        do="bring the base to the names of the class: key_map: [{family: {name: hf-v4-v5}}]",
    )


def _source(recipe: Sequence[Any], shapes: Mapping[str, tuple[int, ...]]) -> _Source | None:
    kind, *rest = recipe
    if kind == "source":
        shape = shapes[rest[0]]
        size = shape[0] if len(shape) == 2 else 0
        return _Source(np.full(size, rest[0], object), np.arange(size)) if size else None
    if kind == "concat" and rest[0] == 0:
        parts = [_source(part, shapes) for part in rest[1]]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return _Source(*(np.concatenate(column) for column in zip(*known, strict=True)))
    if kind not in ("window", "take") or rest[0] != 0:
        return None
    inner = _source(rest[-1], shapes)
    chosen = slice(rest[1], rest[2]) if kind == "window" else np.array(rest[1], np.int64)
    return None if inner is None else _Source(inner.name[chosen], inner.row[chosen])


def _taken(tensor: LazyTensor, rows: Rows) -> LazyTensor:
    first, last = int(rows[0]), int(rows[-1]) + 1
    if np.array_equal(rows, np.arange(first, last)):
        return window(tensor, 0, first, last)
    return Take(tensor, 0, rows)
