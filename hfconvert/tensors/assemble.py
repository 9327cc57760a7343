"""Tensors made of others: side by side along a dimension, or stacked along a new one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hfconvert.errors import UserError, source_problem
from hfconvert.tensors.box import Box, Shape
from hfconvert.tensors.lazy import (
    Input,
    LazyTensor,
    Mesh,
    Place,
    RawArray,
    TensorSpec,
    needs_of_inputs,
)
from hfconvert.tensors.leaf import scratch_of_part
from hfconvert.tensors.source import ByteRange


@dataclass(frozen=True, slots=True)
class Assemble:
    """Parts side by side along dimension `dim` (join, concat); all other sizes and the dtype are equal."""

    parts: tuple[LazyTensor, ...]
    dim: int
    extent: Shape = field(init=False, repr=False, compare=False)
    spec: TensorSpec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        first = self.parts[0].extent
        size = sum(part.extent[self.dim] for part in self.parts)
        extent = (*first[: self.dim], size, *first[self.dim + 1 :])
        object.__setattr__(self, "extent", extent)
        object.__setattr__(self, "spec", TensorSpec(self.parts[0].spec.dtype, extent))

    @property
    def grain(self) -> int:
        """The largest grain of a part where all parts begin at multiples of it."""
        grain = max(part.grain for part in self.parts)
        aligned = self.dim != 0 or all(lo % grain == 0 for lo, _, _ in self._places())
        return grain if aligned else 1

    @property
    def scratch(self) -> int:
        """That of the hungriest part: they are filled one after the other."""
        return max(scratch_of_part(part, self.dim) for part in self.parts)

    def fill(self, out: RawArray, box: Box) -> None:
        """Fill each part's share of `out` from it."""
        lead: tuple[Any, ...] = (slice(None),) * self.dim
        for part, begin, lo, hi in self._shares(box):
            start = lo - box[self.dim][0]
            share = out[(*lead, slice(start, start + hi - lo), ...)]
            part.fill(share, self._within(box, lo - begin, hi - begin))

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """What the parts need for their shares."""
        return needs_of_inputs(self, box)

    def inputs(self, box: Box) -> Iterator[Input]:
        """The parts that the box touches, each with its share."""
        for part, begin, lo, hi in self._shares(box):
            yield Input(part, self._within(box, lo - begin, hi - begin))

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """Where each coordinate is, in the part that it falls into."""
        along = mesh[self.dim]
        for lo, hi, part in self._places():
            mine = np.flatnonzero((along >= lo) & (along < hi))
            if not len(mine):
                continue
            inner = (*mesh[: self.dim], along[mine] - lo, *mesh[self.dim + 1 :])
            for place in part.where(inner):
                select = list(place.select)
                select[self.dim] = mine[select[self.dim]]
                yield replace(place, select=tuple(select))

    def _places(self) -> Iterator[tuple[int, int, LazyTensor]]:
        lo = 0
        for part in self.parts:
            hi = lo + part.extent[self.dim]
            yield lo, hi, part
            lo = hi

    def _shares(self, box: Box) -> Iterator[tuple[LazyTensor, int, int, int]]:
        """Parts that the box touches: where each begins, and the range of the box that is its own."""
        first, last = box[self.dim]
        for begin, end, part in self._places():
            lo, hi = max(first, begin), min(last, end)
            if lo < hi:
                yield part, begin, lo, hi

    def _within(self, box: Box, lo: int, hi: int) -> Box:
        return (*box[: self.dim], (lo, hi), *box[self.dim + 1 :])


@dataclass(frozen=True, slots=True)
class Lift:
    """The inner tensor with a new dimension of size 1 at `dim`: what a stack is assembled from."""

    inner: LazyTensor
    dim: int
    extent: Shape = field(init=False, repr=False, compare=False)
    spec: TensorSpec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        extent = (*self.inner.extent[: self.dim], 1, *self.inner.extent[self.dim :])
        object.__setattr__(self, "extent", extent)
        object.__setattr__(self, "spec", TensorSpec(self.inner.spec.dtype, extent))

    @property
    def grain(self) -> int:
        """The inner grain where its dimension is still the first."""
        return self.inner.grain if self.dim > 0 else 1

    @property
    def scratch(self) -> int:
        """The inner scratch."""
        return self.inner.scratch

    def fill(self, out: RawArray, box: Box) -> None:
        """Fill from the inner tensor, `out` seen without the dimension."""
        if out.size:
            lead: tuple[Any, ...] = (slice(None),) * self.dim
            self.inner.fill(out[(*lead, 0, ...)], self._inner(box))

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """What the inner tensor needs."""
        return needs_of_inputs(self, box)

    def inputs(self, box: Box) -> Iterator[Input]:
        """The box of the inner tensor without the dimension; none for a box that has nothing of it."""
        lo, hi = box[self.dim]
        if lo < hi:
            yield Input(self.inner, self._inner(box))

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """Where the inner elements are; the new dimension moves nothing."""
        here = np.zeros(len(mesh[self.dim]), dtype=np.int64)
        there = np.arange(len(here))
        for place in self.inner.where((*mesh[: self.dim], *mesh[self.dim + 1 :])):
            yield replace(
                place,
                steps=(*place.steps[: self.dim], here, *place.steps[self.dim :]),
                select=(*place.select[: self.dim], there, *place.select[self.dim :]),
            )

    def _inner(self, box: Box) -> Box:
        return (*box[: self.dim], *box[self.dim + 1 :])


def stack(parts: Sequence[LazyTensor], dim: int) -> Assemble:
    """Parts of one shape, stacked along a new dimension `dim`."""
    return Assemble(tuple(Lift(part, dim) for part in parts), dim)


@dataclass(frozen=True, slots=True)
class Same:
    """Replicas of one tensor: the first is taken, and the others must hold the same bits."""

    parts: tuple[LazyTensor, ...]
    name: str

    @property
    def spec(self) -> TensorSpec:
        """That of the first."""
        return self.parts[0].spec

    @property
    def extent(self) -> Shape:
        """That of the first."""
        return self.parts[0].extent

    @property
    def grain(self) -> int:
        """The largest of the replicas."""
        return max(part.grain for part in self.parts)

    @property
    def scratch(self) -> int:
        """The hungriest replica's, and a block to compare with."""
        return max(part.scratch for part in self.parts) + COMPARED

    def fill(self, out: RawArray, box: Box) -> None:
        """Fill from the first, compare with each other. UserError (exit 3) where one differs."""
        self.parts[0].fill(out, box)
        other = np.empty(out.shape, out.dtype)
        for number, part in enumerate(self.parts[1:], 1):
            part.fill(other, box)
            if not np.array_equal(out, other):
                raise UserError(
                    source_problem(
                        f"its replica of rank {number} differs from that of rank 0",
                        why="the ranks were saved at different steps, or this tensor is split and "
                        "not replicated",
                        do="use files of one step, or give its dimension in the `join` step",
                        subject=self.name,
                    )
                )

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """What all the replicas need."""
        return needs_of_inputs(self, box)

    def inputs(self, box: Box) -> Iterator[Input]:
        """The same box of every replica."""
        return (Input(part, box) for part in self.parts)

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """Where the elements of the first are."""
        return self.parts[0].where(mesh)


COMPARED = 8 << 20  # bytes: a block is never larger
