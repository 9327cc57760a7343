"""Elements of sparse tensors: what the `tensors` check holds the result of `densify` against.

For every block the entries of its rows are looked up and added by turns: first the first entry of every
place, then the second, until none is left. Shares no code with the node that computes the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from hfconvert.tensors.box import Box, Shape
from hfconvert.tensors.computed import elements_at, place_in, run_boxes
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.lazy import LazyTensor, Mesh, Place, RawArray
from hfconvert.tensors.recent import Recent
from hfconvert.tensors.sparse_form import BY_ROWS, COO, Form
from hfconvert.tensors.unreadable import Sparse

_TYPES: dict[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "C64": np.complex64,
    "BOOL": np.bool_,
}
GAP = 64 << 10  # bytes of values: reading through them costs less than another read
SPAN = 4 << 20  # bytes of values that are read at once


@dataclass(frozen=True, slots=True)
class Lines:
    """Entries by their first coordinate: those of line `i` are `order[start[i]:start[i+1]]`."""

    coordinates: NDArray[np.int64]  # one row an entry
    order: NDArray[np.int64]
    start: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SparseElements:
    """The numbers of a dense tensor that a sparse one stands for."""

    detail: Sparse
    form: Form
    shape: Shape
    name: str
    held: Recent[Lines]

    @property
    def dtype(self) -> DType:
        """That of the values."""
        return self.detail.values.spec.dtype

    def place(self, mesh: Mesh) -> Place:
        """Where the elements of the mesh are, in a source that computes them."""
        return place_in(self, f"{self.name} (densified)", mesh)

    def values(self, box: Box) -> RawArray:
        """The raw values of a box."""
        kind = _TYPES.get(self.dtype.code, self.dtype.raw)
        out = np.zeros(tuple(hi - lo for lo, hi in box), kind)
        lines = self.held.get(self.name, self._lines)
        slots = len(self.form.slots)
        entries, targets = self._elements(lines, box)
        while len(entries):
            chosen = _firsts(targets)
            values = self._read(entries[chosen], box[slots:]).view(kind)
            at = tuple(targets[chosen].T)
            out[at] = out[at] + values if slots else out + values[0]
            entries, targets = entries[~chosen], targets[~chosen]
        return out.view(self.dtype.raw)

    def _elements(self, lines: Lines, box: Box) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Stored elements in the box, in the order of entries: entry, place in its block; their targets."""
        form, slots = self.form, len(self.form.slots)
        numbers = np.sort(lines.order[slice(*_range(lines, form, box))])
        steps = (*(1,) * len(form.batch), *form.block)
        base = lines.coordinates[numbers] * np.array(steps, np.int64).reshape(1, -1)
        within = np.argwhere(np.ones(form.block, np.bool_)).astype(np.int64)
        within = within.reshape(prod(form.block), len(form.block))  # one empty row for no dimension
        places = np.concatenate(
            [np.zeros((len(within), len(form.batch)), np.int64), within], axis=1
        )
        targets = (base[:, None, :] + places[None, :, :]).reshape(len(base) * len(places), slots)
        entries = np.concatenate(
            [numbers.repeat(len(within))[:, None], np.tile(within, (len(numbers), 1))], axis=1
        )
        low = np.array([lo for lo, _ in box[:slots]], np.int64)
        high = np.array([hi for _, hi in box[:slots]], np.int64)
        inside = ((targets >= low) & (targets < high)).all(axis=1)
        return entries[inside], targets[inside] - low

    def _read(self, entries: NDArray[np.int64], dense: Box) -> RawArray:
        """The values of stored elements, in the order of entries, which are read with what lies between."""
        tensor, form = self.detail.values, self.form
        lead = (*form.batch, form.entries)
        stored = tensor.extent[len(lead) : len(tensor.extent) - len(form.dense)]
        numbers, first = np.unique(entries[:, 0], return_index=True)
        unit = prod(stored) * prod(_sizes(dense)) * self.dtype.itemsize
        bucket = numbers // max(1, SPAN // max(1, unit))
        far = (np.diff(numbers) * unit > GAP) | (np.diff(bucket) > 0)
        cuts = np.flatnonzero(far) + 1
        found = []
        for run in np.split(np.arange(len(numbers)), cuts):
            lo, hi = int(numbers[run[0]]), int(numbers[run[-1]]) + 1
            whole = tuple((0, size) for size in stored)
            boxes = [(*box, *whole, *dense) for box in run_boxes(lead, lo, hi)]
            parts = [elements_at(tensor, box).reshape(-1, *stored, *_sizes(dense)) for box in boxes]
            values = np.concatenate(parts).reshape(hi - lo, *form.block, *_sizes(dense))
            end = first[run[-1] + 1] if run[-1] + 1 < len(first) else len(entries)
            some = entries[first[run[0]] : end]
            found.append(values[(some[:, 0] - lo, *some[:, 1:].T)])
        return np.concatenate(found)

    def _lines(self) -> Lines:
        order = np.arange(self.form.count)
        if not self.form.slots:
            return Lines(order.reshape(-1, 1)[:, :0], order, np.array([0, len(order)]))
        coordinates = np.stack(list(_coordinates(self.detail, self.form)), axis=1)
        order = np.lexsort((coordinates[:, 0],))
        start = np.searchsorted(coordinates[order, 0], np.arange(self.form.slots[0] + 1))
        return Lines(coordinates, order, start)


def _firsts(targets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The first of every target that stands there more than once."""
    chosen = np.zeros(len(targets), np.bool_)
    if targets.shape[1]:
        chosen[np.unique(targets, axis=0, return_index=True)[1]] = True
    else:
        chosen[0] = True
    return chosen


def _range(lines: Lines, form: Form, box: Box) -> tuple[int, int]:
    """Where the entries of the lines that a box touches are in the order of lines."""
    if not form.slots:
        return 0, len(lines.order)
    step = 1 if form.batch else form.block[0]
    (lo, hi), *_ = box
    return int(lines.start[lo // step]), int(lines.start[-(-hi // step)])


def _coordinates(detail: Sparse, form: Form) -> Iterator[NDArray[np.int64]]:
    """The coordinates of all the entries, axis by axis."""
    numbers = [_integers(part) for part in detail.indices]
    if detail.layout == COO:
        yield from numbers[0]
        return
    pointers = numbers[0].reshape(-1, numbers[0].shape[-1])
    lines = [np.searchsorted(row, np.arange(form.entries), side="right") - 1 for row in pointers]
    line = np.concatenate([*lines, np.zeros(0, np.int64)])
    batches = np.argwhere(np.ones(form.batch, np.bool_)).repeat(form.entries, axis=0)
    yield from batches.T
    other = numbers[1].reshape(-1)
    yield from (line, other) if detail.layout in BY_ROWS else (other, line)


def _integers(tensor: LazyTensor) -> NDArray[np.int64]:
    raw = elements_at(tensor, tuple((0, size) for size in tensor.extent))
    signed = "<i8" if tensor.spec.dtype.bits == 64 else "<i4"
    return raw.view(signed).astype(np.int64)


def _sizes(box: Box) -> Shape:
    return tuple(hi - lo for lo, hi in box)
