"""The leaf: a tensor that lies in a source as it is, with any offset and any strides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from types import EllipsisType
from typing import NamedTuple

import numpy as np

from hfconvert.tensors.box import Box, Shape, full, shape_of
from hfconvert.tensors.lazy import Input, LazyTensor, Mesh, Place, RawArray, TensorSpec, extent_of
from hfconvert.tensors.source import ByteRange, ByteSource

SPAN = 4 << 20  # bytes read at once where elements do not lie side by side
GAP = 1024  # bytes: reading through a smaller gap costs less than another read
RUN = 64 << 10  # bytes of a column that are read at once where a block of COLUMNS allows it
COLUMNS = 8 << 20


class _Read(NamedTuple):
    """One read: `span` elements from element `first` on give the part `box` of the output block."""

    first: int
    span: int
    box: tuple[slice | EllipsisType, ...]  # the dots keep a view where there are no dimensions


@dataclass(frozen=True, slots=True)
class Leaf:
    """A view of a source, as torch describes it: byte `start` of element 0, strides in elements.

    Strides may be 0 (expanded) and may overlap; they are never negative.
    """

    spec: TensorSpec
    source: ByteSource
    start: int
    strides: Shape
    extent: Shape
    grain: int = 1
    scratch: int = SPAN

    @classmethod
    def packed(cls, spec: TensorSpec, source: ByteSource, start: int) -> Leaf:
        """Row-major data without gaps, as a safetensors file holds it."""
        extent = extent_of(spec)
        return cls(spec, source, start, row_major(extent), extent, scratch=0)

    @classmethod
    def strided(cls, spec: TensorSpec, source: ByteSource, start: int, strides: Shape) -> Leaf:
        """A torch view with its own strides, in elements."""
        if 0 in spec.shape or strides == row_major(spec.shape):
            return cls.packed(spec, source, start)
        if _rows_are_columns(spec.shape, strides):
            grain = grain_of_columns(spec.shape, spec.dtype.itemsize)
            return cls(spec, source, start, strides, spec.shape, grain, SPAN + 2 * COLUMNS)
        return cls(spec, source, start, strides, spec.shape)

    def fill(self, out: RawArray, box: Box) -> None:
        """Read the box; straight into `out` where both are packed, else through a bounded buffer."""
        unit, raw = self.spec.dtype.itemsize, self.spec.dtype.raw
        steps = self._steps(shape_of(box))
        buffer = np.empty(0, raw)
        for read in self._reads(box):
            part = out[read.box]
            offset = self.start + read.first * unit
            if read.span == part.size and part.flags.c_contiguous and self._in_order(part.shape):
                self.source.readinto(_bytes_of(part), offset)
                continue
            if read.span > len(buffer):
                del buffer  # before the next is made: never two at once
                buffer = np.empty(read.span, raw)
            self.source.readinto(_bytes_of(buffer[: read.span]), offset)
            part[...] = np.ndarray(part.shape, raw, buffer, strides=steps)

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """The spans that `fill` reads, small gaps included."""
        if self.scratch == 0 and box == full(self.extent):  # packed, and all of it
            if self.spec.nbytes:
                yield ByteRange(self.source, self.start, self.start + self.spec.nbytes)
            return
        unit = self.spec.dtype.itemsize
        for read in self._reads(box):
            begin = self.start + read.first * unit
            yield ByteRange(self.source, begin, begin + read.span * unit)

    def inputs(self, box: Box) -> Iterator[Input]:
        """Nothing: it lies in a source."""
        return iter(())

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """One place: element numbers are the sum of coordinates times strides."""
        steps = tuple(
            coordinates * stride for coordinates, stride in zip(mesh, self.strides, strict=True)
        )
        select = tuple(np.arange(len(coordinates)) for coordinates in mesh)
        unit = self.spec.dtype.itemsize
        yield Place(self.source, self.spec.dtype, self.start, unit, steps, select)

    def _reads(self, box: Box) -> Iterator[_Read]:
        counts = shape_of(box)
        if 0 in counts:
            return
        if self.scratch == 0 and counts == self.extent:  # packed, and all of it: the usual case
            yield _Read(0, prod(counts), (...,))
            return
        first = sum(lo * stride for (lo, _), stride in zip(box, self.strides, strict=True))
        loops, chunk, span = self._loops(counts)
        whole = [slice(0, count) for count in counts]
        ranges = [range(0, counts[axis], step) for axis, step in zip(loops, chunk, strict=True)]
        for index in product(*ranges):
            part, begin, length = list(whole), first, span
            for axis, step, lo in zip(loops, chunk, index, strict=True):
                hi = min(lo + step, counts[axis])
                part[axis] = slice(lo, hi)
                begin += lo * self.strides[axis]
                length += (hi - lo - 1) * self.strides[axis]
            yield _Read(begin, length, (*part, ...))

    def _loops(self, counts: Shape) -> tuple[list[int], list[int], int]:
        """Axes to loop over with the step of each, and the span in elements of one read without them.

        From the smallest stride outwards, an axis joins the read while its gaps stay below GAP and
        the read below SPAN; the first that would outgrow SPAN is taken in steps, the others one by one.
        """
        unit = self.spec.dtype.itemsize
        axes = sorted(
            (axis for axis, count in enumerate(counts) if count > 1 and self.strides[axis] > 0),
            key=lambda axis: self.strides[axis],
        )
        span, dense = 1, True
        for position, axis in enumerate(axes):
            stride, count = self.strides[axis], counts[axis]
            longer = span + (count - 1) * stride
            gap = (stride - span) * unit
            dense = dense and gap <= 0
            if gap >= GAP or (longer * unit > SPAN and not dense):
                step = max(1, (SPAN // unit - span) // stride + 1) if gap < GAP else 1
                rest = axes[position + 1 :]
                return [*reversed(rest), axis], [1] * len(rest) + [step], span
            span = longer
        return [], [], span

    def _steps(self, counts: Shape) -> Shape:
        """Strides in bytes, of a part with those counts; none along an axis that it does not move on."""
        unit = self.spec.dtype.itemsize
        return tuple(
            stride * unit if count > 1 else 0
            for stride, count in zip(self.strides, counts, strict=True)
        )

    def _in_order(self, shape: Shape) -> bool:
        """Whether elements of the source follow each other as those of a packed part do."""
        expected = 1
        for stride, count in zip(reversed(self.strides), reversed(shape), strict=True):
            if count > 1 and stride != expected:
                return False
            expected *= count
        return True


def grain_of_columns(extent: Shape, unit: int) -> int:
    """How many rows a block needs whose rows are columns in the source: each gives one short run of it."""
    row = max(1, prod(extent[1:]) * unit)
    return max(1, min(RUN // unit, COLUMNS // row, extent[0]))


def scratch_of_part(inner: LazyTensor, dim: int) -> int:
    """Bytes that the inner tensor holds when it gives a part along `dim`, which a leaf reads into a buffer
    where the part is not whole rows.
    """
    return max(inner.scratch, SPAN) if dim > 0 else inner.scratch


def row_major(shape: Shape) -> Shape:
    """Strides, in elements, of packed data of that shape (as torch counts them: sizes of 0 count as 1)."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))


def _bytes_of(array: RawArray) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8))


def _rows_are_columns(shape: Shape, strides: Shape) -> bool:
    """Whether the source runs along dimension 0 before any other."""
    moving = [stride for size, stride in zip(shape, strides, strict=True) if size > 1 and stride]
    return shape[0] > 1 and len(moving) > 1 and 0 < strides[0] < min(moving[1:])
