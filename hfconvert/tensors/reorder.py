"""The same elements in another order: dimensions permuted, rows taken by an index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from hfconvert.tensors.leaf import COLUMNS, grain_of_columns, scratch_of_part
from hfconvert.tensors.source import ByteRange


@dataclass(frozen=True, slots=True)
class Permute:
    """Dimension `i` of the result is dimension `dims[i]` of the inner tensor."""

    inner: LazyTensor
    dims: Shape
    extent: Shape = field(init=False, repr=False, compare=False)
    spec: TensorSpec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        extent = tuple(self.inner.extent[dim] for dim in self.dims)
        object.__setattr__(self, "extent", extent)
        object.__setattr__(self, "spec", TensorSpec(self.inner.spec.dtype, extent))

    @property
    def grain(self) -> int:
        """Many rows at once: a row of the result is a column of the source, one short run a source row."""
        if not self.dims or self.dims[0] == 0:
            return 1
        return grain_of_columns(self.extent, self.spec.dtype.itemsize)

    @property
    def scratch(self) -> int:
        """The inner scratch, and what a block and its reads take beyond the usual."""
        return self.inner.scratch + 2 * COLUMNS

    def fill(self, out: RawArray, box: Box) -> None:
        """Fill from the inner tensor, `out` seen in its order of dimensions."""
        self.inner.fill(out.transpose(self._back()), self._inner(box))

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """What the inner tensor needs."""
        return self.inner.needs(self._inner(box))

    def inputs(self, box: Box) -> Iterator[Input]:
        """The box of the inner tensor, its dimensions put back."""
        yield Input(self.inner, self._inner(box))

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """Where the inner elements are, in the order of our dimensions."""
        for place in self.inner.where(tuple(mesh[dim] for dim in self._back())):
            yield replace(
                place,
                steps=tuple(place.steps[dim] for dim in self.dims),
                select=tuple(place.select[dim] for dim in self.dims),
            )

    def _back(self) -> Shape:
        """For every dimension of the inner tensor, which of ours it is."""
        return tuple(self.dims.index(dim) for dim in range(len(self.dims)))

    def _inner(self, box: Box) -> Box:
        return tuple(box[dim] for dim in self._back())


@dataclass(frozen=True, eq=False, slots=True)
class Take:
    """Index `i` along dimension `dim` is index `rows[i]` of the inner tensor (qkv, permute_rope)."""

    inner: LazyTensor
    dim: int
    rows: NDArray[np.int64]
    extent: Shape = field(init=False, repr=False, compare=False)
    spec: TensorSpec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shape = self.inner.extent
        extent = (*shape[: self.dim], len(self.rows), *shape[self.dim + 1 :])
        object.__setattr__(self, "extent", extent)
        object.__setattr__(self, "spec", TensorSpec(self.inner.spec.dtype, extent))

    @property
    def grain(self) -> int:
        """1: runs of rows are found block by block."""
        return 1

    @property
    def scratch(self) -> int:
        """The inner scratch, and a buffer where the rows are parts of those of the inner tensor."""
        return scratch_of_part(self.inner, self.dim)

    def fill(self, out: RawArray, box: Box) -> None:
        """Fill run by run of rows that follow each other."""
        lead: tuple[Any, ...] = (slice(None),) * self.dim
        lo, hi = box[self.dim]
        for at, first, count in _runs(self.rows[lo:hi]):
            part = out[(*lead, slice(at, at + count), ...)]
            self.inner.fill(part, self._inner(box, first, count))

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """What the inner tensor needs for the taken rows, in its own order."""
        return needs_of_inputs(self, box)

    def inputs(self, box: Box) -> Iterator[Input]:
        """The taken rows of the inner tensor, in its own order and as few boxes as they make."""
        lo, hi = box[self.dim]
        for _, first, count in _runs(np.unique(self.rows[lo:hi])):
            yield Input(self.inner, self._inner(box, first, count))

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """Where the taken rows are."""
        rows = self.rows[mesh[self.dim]]
        return self.inner.where((*mesh[: self.dim], rows, *mesh[self.dim + 1 :]))

    def _inner(self, box: Box, first: int, count: int) -> Box:
        return (*box[: self.dim], (first, first + count), *box[self.dim + 1 :])


def _runs(rows: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Position, first index and length of every run of consecutive indices."""
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    bounds = [0, *breaks.tolist(), len(rows)]
    for begin, end in pairwise(bounds):
        if end > begin:
            yield begin, int(rows[begin]), end - begin
