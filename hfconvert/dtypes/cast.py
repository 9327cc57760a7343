"""The node that casts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import EllipsisType
from typing import Protocol, runtime_checkable

import numpy as np

from hfconvert.dtypes.convert import convert_into
from hfconvert.tensors.box import Box, Shape, blocks, shape_of
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.lazy import Input, LazyTensor, Mesh, Place, RawArray, TensorSpec
from hfconvert.tensors.source import ByteRange
from hfconvert.tensors.tally import Tally


@runtime_checkable
class Sum(Protocol):
    """A tensor that is computed wider than it is written: it is rounded once, to whatever dtype."""

    def rounded_to(self, dtype: DType) -> LazyTensor:
        """The same tensor in another dtype, from the wide values."""


BLOCK = 1 << 20  # bytes: about what one block of the result takes
PART = 3 << 18  # bytes of the inner tensor that are cast at once


@dataclass(frozen=True, slots=True)
class Cast:
    """Another floating tensor with every value cast; what is lost is counted in `tally` under `name`."""

    inner: LazyTensor
    dtype: DType
    name: str
    tally: Tally

    @property
    def spec(self) -> TensorSpec:
        """The target dtype, the inner tensor's shape."""
        return TensorSpec(self.dtype, self.inner.spec.shape)

    @property
    def extent(self) -> Shape:
        """That of the inner tensor."""
        return self.inner.extent

    @property
    def grain(self) -> int:
        """That of the inner tensor."""
        return self.inner.grain

    @property
    def scratch(self) -> int:
        """The inner tensor's, and a block of it with the masks that count losses."""
        ratio = -(-self.inner.spec.dtype.itemsize // self.dtype.itemsize)
        return self.inner.scratch + (PART if self.inner.scratch == 0 else BLOCK) * (ratio + 2)

    def fill(self, out: RawArray, box: Box) -> None:
        """Read the inner values, cast them, count what is lost.

        In parts that stay in the processor's cache, where the inner tensor reads each of them by itself;
        others may read the same bytes again for every part.
        """
        if self.inner.scratch:
            self._fill(out, box)
            return
        unit = self.inner.spec.dtype.itemsize
        for part in blocks(shape_of(box), unit, PART, self.inner.grain):
            inner = tuple((lo + a, lo + b) for (lo, _), (a, b) in zip(box, part, strict=True))
            index: tuple[slice | EllipsisType, ...] = (*(slice(a, b) for a, b in part), ...)
            self._fill(out[index], inner)

    def _fill(self, out: RawArray, box: Box) -> None:
        source = self.inner.spec.dtype
        block = np.empty(shape_of(box), source.raw)
        self.inner.fill(block, box)
        self.tally.add(self.name, convert_into(out, block, source, self.dtype))

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """What the inner tensor needs."""
        return self.inner.needs(box)

    def inputs(self, box: Box) -> Iterator[Input]:
        """The same box of the inner tensor."""
        yield Input(self.inner, box)

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """Where the inner values are; their dtype is the inner one."""
        return self.inner.where(mesh)
