"""Parts of a tensor: a range of one dimension, or one index of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from hfconvert.tensors.box import Box, Shape
from hfconvert.tensors.lazy import Input, LazyTensor, Mesh, Place, RawArray, TensorSpec
from hfconvert.tensors.leaf import scratch_of_part
from hfconvert.tensors.source import ByteRange


@dataclass(frozen=True, slots=True)
class Window:
    """Indices `lo` to `hi` of dimension `dim` (split, vocabulary cut)."""

    inner: LazyTensor
    dim: int
    lo: int
    hi: int
    extent: Shape = field(init=False, repr=False, compare=False)
    spec: TensorSpec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shape = self.inner.extent
        extent = (*shape[: self.dim], self.hi - self.lo, *shape[self.dim + 1 :])
        object.__setattr__(self, "extent", extent)
        object.__setattr__(self, "spec", TensorSpec(self.inner.spec.dtype, extent))

    @property
    def grain(self) -> int:
        """The inner grain, where the cut leaves it in place."""
        aligned = self.dim != 0 or self.lo % self.inner.grain == 0
        return self.inner.grain if aligned else 1

    @property
    def scratch(self) -> int:
        """The inner scratch, and a buffer where rows are cut."""
        return scratch_of_part(self.inner, self.dim)

    def fill(self, out: RawArray, box: Box) -> None:
        """Fill from the inner tensor, moved by `lo`."""
        self.inner.fill(out, self._moved(box))

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """What the inner tensor needs for the moved box."""
        return self.inner.needs(self._moved(box))

    def inputs(self, box: Box) -> Iterator[Input]:
        """The moved box of the inner tensor."""
        yield Input(self.inner, self._moved(box))

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """Where the inner elements are."""
        return self.inner.where(
            (*mesh[: self.dim], mesh[self.dim] + self.lo, *mesh[self.dim + 1 :])
        )

    def _moved(self, box: Box) -> Box:
        lo, hi = box[self.dim]
        return (*box[: self.dim], (lo + self.lo, hi + self.lo), *box[self.dim + 1 :])


@dataclass(frozen=True, slots=True)
class Select:
    """One index of dimension `dim`, which is gone (one tensor of a stack)."""

    inner: LazyTensor
    dim: int
    index: int
    extent: Shape = field(init=False, repr=False, compare=False)
    spec: TensorSpec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        extent = (*self.inner.extent[: self.dim], *self.inner.extent[self.dim + 1 :])
        object.__setattr__(self, "extent", extent)
        object.__setattr__(self, "spec", TensorSpec(self.inner.spec.dtype, extent))

    @property
    def grain(self) -> int:
        """The inner grain where it is of another dimension; none of ours otherwise."""
        return self.inner.grain if self.dim > 0 else 1

    @property
    def scratch(self) -> int:
        """The inner scratch, and a buffer where rows are cut."""
        return scratch_of_part(self.inner, self.dim)

    def fill(self, out: RawArray, box: Box) -> None:
        """Fill from the inner tensor, `out` seen with the dimension put back."""
        self.inner.fill(np.expand_dims(out, self.dim), self._inner(box))

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """What the inner tensor needs for this index."""
        return self.inner.needs(self._inner(box))

    def inputs(self, box: Box) -> Iterator[Input]:
        """The box of the inner tensor with the index put in."""
        yield Input(self.inner, self._inner(box))

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """Where the inner elements are; the dimension's part goes into the first byte."""
        here = np.array([self.index], dtype=np.int64)
        for place in self.inner.where((*mesh[: self.dim], here, *mesh[self.dim :])):
            moved = int(place.steps[self.dim][0]) * place.itemsize
            yield replace(
                place,
                start=place.start + moved,
                steps=(*place.steps[: self.dim], *place.steps[self.dim + 1 :]),
                select=(*place.select[: self.dim], *place.select[self.dim + 1 :]),
            )

    def _inner(self, box: Box) -> Box:
        return (*box[: self.dim], (self.index, self.index + 1), *box[self.dim :])
