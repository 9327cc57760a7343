"""Values that a step computes, as a source that can be read at any place: the second route to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hfconvert.tensors.box import Box, Shape
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.lazy import LazyTensor, Mesh, Place, RawArray
from hfconvert.tensors.leaf import row_major

SPAN = 8 << 20  # bytes of a source read at once


class Elements(Protocol):
    """A tensor by its elements in row-major order, each computed when it is asked for."""

    @property
    def dtype(self) -> DType:
        """Type of the elements."""

    @property
    def shape(self) -> Shape:
        """The shape of the tensor."""

    def values(self, box: Box) -> RawArray:
        """The raw values of a box."""


class ComputedSource:
    """A byte source over elements that are computed: as if they lay packed in a file."""

    def __init__(self, elements: Elements, name: str) -> None:
        self.name = name
        self.size = elements.dtype.nbytes(prod(elements.shape))
        self._elements = elements

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Compute the elements of the range, which begins and ends with whole ones."""
        unit = self._elements.dtype.itemsize
        first, count = offset // unit, buffer.nbytes // unit
        out = np.frombuffer(buffer, self._elements.dtype.raw)
        done = 0
        for box in run_boxes(self._elements.shape, first, first + count):
            size = prod(hi - lo for lo, hi in box)
            out[done : done + size] = self._elements.values(box).reshape(-1)
            done += size

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Nothing: it lies nowhere."""


def place_in(elements: Elements, name: str, mesh: Mesh) -> Place:
    """Where the elements of a mesh are, in a computed source."""
    strides = row_major(elements.shape)
    steps = tuple(axis * stride for axis, stride in zip(mesh, strides, strict=True))
    select = tuple(np.arange(len(axis)) for axis in mesh)
    dtype = elements.dtype
    return Place(ComputedSource(elements, name), dtype, 0, dtype.itemsize, steps, select)


def run_boxes(shape: Shape, lo: int, hi: int) -> Iterator[Box]:
    """Elements `lo` to `hi` in row-major order, as boxes that follow each other."""
    if lo >= hi:
        return
    if not shape:
        yield ()
        return
    inner = prod(shape[1:])
    while lo < hi:
        row, within = divmod(lo, inner)
        if within or hi - lo < inner:
            end = min(hi, (row + 1) * inner)
            for box in run_boxes(shape[1:], within, within + end - lo):
                yield ((row, row + 1), *box)
        else:
            end = hi // inner * inner
            yield ((row, end // inner), *((0, size) for size in shape[1:]))
        lo = end


def elements_at(tensor: LazyTensor, box: Box) -> NDArray[Any]:
    """The raw values of a box of a tensor that lies in a source, by `where` alone."""
    mesh = tuple(np.arange(lo, hi, dtype=np.int64) for lo, hi in box)
    out = np.empty(tuple(hi - lo for lo, hi in box), tensor.spec.dtype.raw)
    for place in tensor.where(mesh):
        _read(place, out)
    return out


def _read(place: Place, out: NDArray[Any]) -> None:
    """The elements of a place: in one read where they lie near each other, else half by half."""
    numbers = np.zeros((), np.int64)
    for step in place.steps:
        numbers = np.add.outer(numbers, step)
    if not numbers.size:
        return
    low, high = int(numbers.min()), int(numbers.max())
    if (high - low + 1) * place.itemsize <= SPAN or numbers.size == 1 or not place.steps:
        raw = np.empty(high - low + 1, place.dtype.raw)
        start = place.start + low * place.itemsize
        place.source.readinto(memoryview(raw.view(np.uint8)), start)
        out[np.ix_(*place.select) if place.select else ()] = raw[numbers - low]
        return
    reach = [int(step.max() - step.min()) if len(step) > 1 else -1 for step in place.steps]
    axis = reach.index(max(reach))
    half = len(place.steps[axis]) // 2
    for part in (slice(0, half), slice(half, None)):
        steps = tuple(s[part] if i == axis else s for i, s in enumerate(place.steps))
        select = tuple(s[part] if i == axis else s for i, s in enumerate(place.select))
        _read(Place(place.source, place.dtype, place.start, place.itemsize, steps, select), out)
