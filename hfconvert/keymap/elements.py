"""No element is lost: what of every source tensor is in an output or in what a rule dropped.

Coordinates are followed from every output down to the source tensors that it is made of, as boxes: nothing is
read, and the work is that of the steps, not that of the elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from hfconvert.errors import Problem, recipe_problem
from hfconvert.keymap.fold import listed
from hfconvert.tensors.box import Box, full, shape_of
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.leaf import Leaf


@dataclass(frozen=True, slots=True)
class Lost:
    """A part of a source tensor that is nowhere: how many elements, and the box that holds them all.

    The box is empty where the tensor is itself made of others, whose coordinates are not its own.
    """

    elements: int
    within: Box


def lost_elements(before: Checkpoint, after: Checkpoint) -> dict[str, Lost]:
    """By name, what of the tensors of `before` is neither in an entry of `after` nor in what was dropped.

    A tensor that was dropped whole, by name, is accounted for.
    """
    ends = {id(tensor): tensor for tensor in _ends(after)}
    whole = {dropped.name for dropped in after.dropped if dropped.tensor is None}
    open_: dict[str, list[Part]] = {
        name: list(leaf_parts(entry.tensor))
        for name, entry in before.items()
        if id(entry.tensor) not in ends and not whole.issuperset(entry.sources)
    }
    wanted = {id(part.leaf) for parts in open_.values() for part in parts}
    used: dict[int, list[Box]] = {}
    for tensor in ends.values() if wanted else ():
        for part in leaf_parts(tensor):
            if id(part.leaf) in wanted:
                used.setdefault(id(part.leaf), []).append(part.box)
    found = ((name, _lost(before[name].tensor, parts, used)) for name, parts in open_.items())
    return {name: lost for name, lost in found if lost is not None}


def lost_parts(before: Checkpoint, after: Checkpoint, subject: str) -> Iterator[Problem]:
    """A problem (exit 2) for every kind of loss, if there is any."""
    kinds: dict[tuple[int, Box], list[str]] = {}
    for name, lost in lost_elements(before, after).items():
        kinds.setdefault((lost.elements, lost.within), []).append(name)
    for (count, box), names in kinds.items():
        where = f", within [{', '.join(f'{lo}:{hi}' for lo, hi in box)}]" if box else ""
        yield recipe_problem(
            f"{listed(names)}: {count} elements are neither mapped nor dropped{where}",
            why="a step takes a part of the tensor, and nothing says what becomes of the rest",
            do="map the rest too, or name it in a `drop` step",
            subject=subject,
            check="names",
        )


class Part(NamedTuple):
    """A part of a tensor that lies in a source."""

    leaf: LazyTensor
    box: Box


def leaf_parts(tensor: LazyTensor) -> Iterator[Part]:
    """What a tensor is made of in the end: parts of tensors that are made of no others."""
    todo: list[tuple[LazyTensor, Box]] = [(tensor, full(tensor.extent))]
    while todo:
        inner, box = todo.pop()
        inputs = () if isinstance(inner, Leaf) else tuple(inner.inputs(box))
        if inputs:
            todo += inputs
        elif all(lo < hi for lo, hi in box):
            yield Part(inner, box)


def _ends(after: Checkpoint) -> Iterator[LazyTensor]:
    """Where elements may be: in the outputs, and in the parts that were dropped."""
    yield from (entry.tensor for entry in after.values())
    yield from (dropped.tensor for dropped in after.dropped if dropped.tensor is not None)


def _lost(
    tensor: LazyTensor, parts: Iterable[Part], used: Mapping[int, Sequence[Box]]
) -> Lost | None:
    """What of the parts of a source tensor is not used."""
    lost = [
        cell
        for leaf, box in dict.fromkeys((id(part.leaf), part.box) for part in parts)
        for cell in _uncovered(box, used.get(leaf, ()))
    ]
    if not lost:
        return None
    alone = not any(True for _ in tensor.inputs(full(tensor.extent)))
    sides = zip(*lost, strict=True) if alone else ()
    within = tuple((min(lo for lo, _ in side), max(hi for _, hi in side)) for side in sides)
    return Lost(sum(prod(shape_of(cell)) for cell in lost), within)


def _uncovered(box: Box, boxes: Sequence[Box]) -> Iterator[Box]:
    """What other boxes leave of a box, as cells of a grid that has an edge wherever a box has one."""
    if box in boxes:
        return
    distinct = [other for other in dict.fromkeys(boxes) if _touches(other, box)]
    cuts = [_cuts(side, [other[axis] for other in distinct]) for axis, side in enumerate(box)]
    covered = np.zeros([len(edges) - 1 for edges in cuts], dtype=bool)
    for other in distinct:
        part = tuple(
            slice(edges.index(max(lo, edges[0])), edges.index(min(hi, edges[-1])))
            for (lo, hi), edges in zip(other, cuts, strict=True)
        )
        covered[part] = True
    for cell in np.argwhere(~covered).tolist():
        yield tuple(
            (edges[number], edges[number + 1]) for edges, number in zip(cuts, cell, strict=True)
        )


def _touches(one: Box, other: Box) -> bool:
    return all(lo < end and begin < hi for (lo, hi), (begin, end) in zip(one, other, strict=True))


def _cuts(side: tuple[int, int], others: Iterable[tuple[int, int]]) -> list[int]:
    """Where a side has to be cut so that every box is made of whole cells."""
    first, last = side
    edges = {first, last, *(min(max(edge, first), last) for other in others for edge in other)}
    return sorted(edges)
