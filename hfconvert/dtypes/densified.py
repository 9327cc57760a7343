"""The node that makes dense tensors of sparse ones, equal to `torch.Tensor.to_dense()`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfconvert.dtypes.convert import FLOATS
from hfconvert.dtypes.sparse_entries import Entries, Numbers, read_entries
from hfconvert.tensors.box import Box, Shape, full, shape_of
from hfconvert.tensors.computed import run_boxes
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.lazy import Input, Mesh, Place, RawArray, TensorSpec
from hfconvert.tensors.leaf import row_major
from hfconvert.tensors.recent import Recent
from hfconvert.tensors.source import ByteRange
from hfconvert.tensors.sparse_elements import SparseElements
from hfconvert.tensors.sparse_form import Form
from hfconvert.tensors.unreadable import Sparse, Unreadable

GAP = 32 << 10  # bytes of values: reading through them costs less than another read
READ = 1 << 20  # bytes of values that are read at once, where one entry has not more


@dataclass(frozen=True, slots=True)
class Densified:
    """A sparse tensor as a dense one: entries of one place are summed in their order, in their own dtype.

    The places of all the entries are held in memory while blocks are made; their values are not.
    """

    inner: Unreadable
    detail: Sparse
    form: Form
    name: str
    held: Recent[Entries]
    second: SparseElements

    @property
    def spec(self) -> TensorSpec:
        """The dtype of the values, the shape of the sparse tensor."""
        return TensorSpec(self.detail.values.spec.dtype, self.inner.spec.shape)

    @property
    def extent(self) -> Shape:
        """The shape."""
        return self.spec.shape

    @property
    def grain(self) -> int:
        """Any."""
        return 1

    @property
    def scratch(self) -> int:
        """The places of all the entries with what sorting them takes, and values as they are read."""
        places = self.form.count * 8 * (len(self.form.slots) + 4)
        return places + 4 * READ + self.detail.values.scratch

    def fill(self, out: RawArray, box: Box) -> None:
        """Zeros, and to them the entries that stand in the box, in their order."""
        entries = self.held.get(self.name, self._entries)
        part = np.zeros(shape_of(box), _working_type(self.spec.dtype))
        chosen = _within(entries, self.form, box)
        for numbers, slots in self._runs(entries, chosen, box):
            self._add(part, numbers, slots, box, distinct=entries.distinct)
        out[...] = part.view(self.spec.dtype.raw)

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """All the indices, and all the values: which of them stand in the box only the indices tell."""
        for tensor in (*self.detail.indices, self.detail.values):
            yield from tensor.needs(full(tensor.extent))

    def inputs(self, box: Box) -> Iterator[Input]:
        """The same box of the sparse tensor."""
        yield Input(self.inner, box)

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """In a source whose elements are computed by other code."""
        yield self.second.place(mesh)

    def _entries(self) -> Entries:
        return read_entries(self.detail, self.form, self.name)

    def _runs(
        self, entries: Entries, chosen: Numbers, box: Box
    ) -> Iterator[tuple[Numbers, Numbers]]:
        """The chosen entries in their order, with their slots, in groups whose values lie close together."""
        order = np.argsort(entries.numbers[chosen])
        numbers, slots = entries.numbers[chosen][order], entries.slots[chosen][order]
        elements = prod(self.form.block) * prod(shape_of(self._dense(box)))
        nbytes = max(1, elements * self.spec.dtype.itemsize)
        most = max(1, READ // nbytes)
        begin = 0
        wide = np.append(np.flatnonzero(np.diff(numbers) * nbytes > GAP) + 1, len(numbers))
        for end in wide if len(numbers) else ():
            while begin < end:
                reach = int(np.searchsorted(numbers[begin:end], numbers[begin] + most)) + begin
                yield numbers[begin:reach], slots[begin:reach]
                begin = reach

    def _dense(self, box: Box) -> Box:
        return box[len(self.form.slots) :]

    def _add(
        self, part: NDArray[Any], numbers: Numbers, slots: Numbers, box: Box, *, distinct: bool
    ) -> None:
        """Add the values of some entries to the part of the box that they stand in."""
        form, dense = self.form, self._dense(box)
        first, last = int(numbers[0]), int(numbers[-1]) + 1
        values = self._values(first, last, dense)[numbers - first].view(part.dtype)
        inner = shape_of(dense)
        if not form.slots:
            for one in values.reshape(-1, *inner):
                part += one
            return
        places, inside = _places(form, slots, box)
        chosen = values.reshape(-1, *inner)[inside]
        if distinct:
            part[places] += chosen
        else:
            np.add.at(part, places, chosen)

    def _values(self, first: int, last: int, dense: Box) -> RawArray:
        """The values of entries `first` to `last`: whole blocks of a part of the dense dimensions."""
        tensor, form = self.detail.values, self.form
        lead = (*form.batch, form.entries)
        stored = tensor.extent[len(lead) : len(tensor.extent) - len(form.dense)]
        out = np.empty((last - first, *stored, *shape_of(dense)), tensor.spec.dtype.raw)
        done = 0
        for run in run_boxes(lead, first, last):
            count = prod(shape_of(run))
            block = out[done : done + count]
            whole = (*run, *full(stored), *dense)
            tensor.fill(block.reshape(shape_of(whole)), whole)
            done += count
        return out


def _working_type(dtype: DType) -> np.dtype[Any]:
    """The numpy type whose additions are torch's; raw integers wrap around as theirs do."""
    if dtype.kind == "complex":
        return np.dtype(np.complex64)
    return np.dtype(np.bool_) if dtype.kind == "bool" else FLOATS.get(dtype.code, dtype.raw)


def _within(entries: Entries, form: Form, box: Box) -> Numbers:
    """The positions of the entries whose slots reach into the box."""
    if not form.slots:
        return np.arange(len(entries.slots))
    ranges = _slot_ranges(form, box)
    if any(lo >= hi for lo, hi in ranges):
        return np.zeros(0, np.int64)
    strides = row_major(form.slots)
    low = sum(lo * stride for (lo, _), stride in zip(ranges, strides, strict=True))
    high = sum((hi - 1) * stride for (_, hi), stride in zip(ranges, strides, strict=True))
    begin = int(np.searchsorted(entries.slots, low))
    end = int(np.searchsorted(entries.slots, high, side="right"))
    inside = np.ones(end - begin, np.bool_)
    coordinates = np.unravel_index(entries.slots[begin:end], form.slots)
    for axis, (lo, hi) in zip(coordinates, ranges, strict=True):
        inside &= (axis >= lo) & (axis < hi)
    return begin + np.flatnonzero(inside)


def _slot_ranges(form: Form, box: Box) -> list[tuple[int, int]]:
    batch = len(form.batch)
    grid = zip(box[batch:], form.block, strict=False)
    return [*box[:batch], *((lo // step, -(-hi // step)) for (lo, hi), step in grid)]


def _places(form: Form, slots: Numbers, box: Box) -> tuple[tuple[Numbers, ...], NDArray[np.bool_]]:
    """Coordinates within the box of every element of the blocks, and which of them are inside of it."""
    coordinates = np.unravel_index(slots, form.slots)
    batch, blocks = len(form.batch), len(form.block)
    shape = (len(slots), *form.block)
    inside = np.ones(shape, np.bool_)
    found = []
    for axis, coordinate in enumerate(coordinates):
        place = coordinate.reshape(-1, *(1,) * blocks)
        if axis >= batch:
            step = form.block[axis - batch]
            offsets = [1] * (blocks + 1)
            offsets[axis - batch + 1] = step
            place = place * step + np.arange(step).reshape(offsets)
        lo, hi = box[axis]
        inside &= (place >= lo) & (place < hi)
        found.append(np.broadcast_to(place - lo, shape))
    flat = inside.reshape(-1)
    return tuple(place.reshape(-1)[flat] for place in found), flat
