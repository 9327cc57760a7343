"""No element is lost: what of every source tensor is in an output or in what a rule dropped.

Coordinates are followed from every output down to the source tensors that it is made of, as boxes: nothing is
read, and the work is that of the steps, not that of the elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from hfconvert.errors import Problem, recipe_problem
from hfconvert.keymap.fold import listed
from hfconvert.tensors.box import Box, Shape, full, shape_of
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor


@dataclass(frozen=True, slots=True)
class Lost:
    """A part of a source tensor that is nowhere: how many elements, and the box that holds them all."""

    elements: int
    within: Box


def lost_elements(before: Checkpoint, after: Checkpoint) -> dict[str, Lost]:
    """By name, what of the tensors of `before` is neither in an entry of `after` nor in what was dropped.

    A tensor that was dropped whole, by name, is accounted for.
    """
    names = names_by_tensor(before)
    whole = {dropped.name for dropped in after.dropped if dropped.tensor is None}
    used: dict[str, list[Box]] = {
        name: [] for name in names.values() if not whole.issuperset(before[name].sources)
    }
    for tensor in _ends(after):
        used.pop(names.get(id(tensor), ""), None)  # all of it is there: nothing more to ask
    for tensor in _ends(after):
        if id(tensor) not in names:
            for name, box in followed(tensor, names):
                if name in used:
                    used[name].append(box)
    found = ((name, _lost(before[name].tensor.extent, boxes)) for name, boxes in used.items())
    return {name: lost for name, lost in found if lost is not None}


def lost_parts(before: Checkpoint, after: Checkpoint, subject: str) -> Iterator[Problem]:
    """A problem (exit 2) for every kind of loss, if there is any."""
    kinds: dict[tuple[int, Box], list[str]] = {}
    for name, lost in lost_elements(before, after).items():
        kinds.setdefault((lost.elements, lost.within), []).append(name)
    for (count, box), names in kinds.items():
        ranges = ", ".join(f"{lo}:{hi}" for lo, hi in box)
        yield recipe_problem(
            f"{listed(names)}: {count} elements are neither mapped nor dropped, within [{ranges}]",
            why="a step takes a part of the tensor, and nothing says what becomes of the rest",
            do="map the rest too, or name it in a `drop` step",
            subject=subject,
            check="names",
        )


def names_by_tensor(checkpoint: Checkpoint) -> dict[int, str]:
    """By `id` of a tensor its name, the first of several: what `followed` stops at."""
    names: dict[int, str] = {}
    for name, entry in checkpoint.items():
        names.setdefault(id(entry.tensor), name)
    return names


def followed(tensor: LazyTensor, names: Mapping[int, str]) -> Iterator[tuple[str, Box]]:
    """The source tensors that a tensor is made of, each with the part that is used."""
    todo = [(tensor, full(tensor.extent))]
    while todo:
        inner, box = todo.pop()
        name = names.get(id(inner))
        if name is None:
            todo.extend(inner.inputs(box))
        else:
            yield name, box


def _ends(after: Checkpoint) -> Iterator[LazyTensor]:
    """Where elements may be: in the outputs, and in the parts that were dropped."""
    yield from (entry.tensor for entry in after.values())
    yield from (dropped.tensor for dropped in after.dropped if dropped.tensor is not None)


def _lost(extent: Shape, boxes: Iterable[Box]) -> Lost | None:
    """What the boxes leave of the extent."""
    distinct = list(dict.fromkeys(boxes))
    if 0 in extent or full(extent) in distinct:
        return None
    cuts = [_cuts(size, [box[axis] for box in distinct]) for axis, size in enumerate(extent)]
    covered = np.zeros([len(edges) - 1 for edges in cuts], dtype=bool)
    places = [{edge: number for number, edge in enumerate(edges)} for edges in cuts]
    for box in distinct:
        covered[
            tuple(slice(place[lo], place[hi]) for (lo, hi), place in zip(box, places, strict=True))
        ] = True
    cells = np.argwhere(~covered)
    if not len(cells):
        return None
    parts = [_cell(cuts, cell) for cell in cells]
    within = tuple(
        (min(lo for lo, _ in sides), max(hi for _, hi in sides))
        for sides in zip(*parts, strict=True)
    )
    return Lost(sum(prod(shape_of(part)) for part in parts), within)


def _cuts(size: int, sides: Iterable[tuple[int, int]]) -> list[int]:
    """Where a dimension has to be cut so that every box is made of whole cells."""
    return sorted({0, size, *(edge for side in sides for edge in side)})


def _cell(cuts: Sequence[Sequence[int]], cell: Iterable[int]) -> Box:
    return tuple(
        (edges[number], edges[number + 1]) for edges, number in zip(cuts, cell, strict=True)
    )
