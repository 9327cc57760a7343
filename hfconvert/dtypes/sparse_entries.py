"""Where the entries of a sparse tensor stand, read from its indices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfconvert.errors import UserError, source_problem
from hfconvert.tensors.box import full
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.leaf import row_major
from hfconvert.tensors.sparse_form import BY_ROWS, COO, Form
from hfconvert.tensors.unreadable import Sparse

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Entries:
    """Slots in row-major order, sorted, and for each the number of the entry that stands there.

    Entries of one slot keep their order. `distinct` says that no two stand in one slot.
    """

    slots: Numbers
    numbers: Numbers
    distinct: bool


def read_entries(detail: Sparse, form: Form, name: str) -> Entries:
    """Read all the indices. UserError (exit 3) where they lead outside of the tensor."""
    slots = np.zeros(form.count, np.int64)
    coordinates = _coo(detail) if detail.layout == COO else _compressed(detail, form, name)
    strides = row_major(form.slots)
    for axis, size, stride in zip(coordinates, form.slots, strides, strict=True):
        if axis.size and (int(axis.min()) < 0 or int(axis.max()) >= size):
            raise outside(name)
        slots += axis * stride
    steps = np.diff(slots)
    if (steps >= 0).all():
        return Entries(slots, np.arange(form.count), bool((steps > 0).all()))
    order = np.argsort(slots, kind="stable")
    slots = slots[order]
    return Entries(slots, order, bool((np.diff(slots) > 0).all()))


def outside(name: str) -> UserError:
    """Indices that are none."""
    return UserError(
        source_problem(
            "its indices lead outside of the tensor, or are in no order",
            why="the file is damaged, or made to mislead",
            do="drop it, or write the checkpoint again",
            subject=name,
            check="tensors",
        )
    )


def _coo(detail: Sparse) -> Iterator[Numbers]:
    yield from _integers(detail.indices[0])


def _compressed(detail: Sparse, form: Form, name: str) -> Iterator[Numbers]:
    """Coordinates of batches, then row and column: where the lines of every batch end tells the lines."""
    batches = prod(form.batch)
    pointers = _integers(detail.indices[0]).reshape(batches, -1)
    plain = _integers(detail.indices[1]).reshape(-1)
    counts = np.diff(pointers, axis=1)
    starts, ends = pointers[:, 0], pointers[:, -1]
    if starts.any() or (ends != form.entries).any() or (counts < 0).any():
        raise outside(name)
    numbers = np.unravel_index(np.arange(batches), form.batch) if form.batch else ()
    yield from (np.repeat(axis, form.entries) for axis in numbers)
    lines = np.tile(np.arange(counts.shape[1]), batches)
    line = np.repeat(lines, counts.reshape(-1))
    yield from (line, plain) if detail.layout in BY_ROWS else (plain, line)


def _integers(tensor: LazyTensor) -> NDArray[Any]:
    raw = np.empty(tensor.extent, tensor.spec.dtype.raw)
    tensor.fill(raw, full(tensor.extent))
    return raw.view(np.int64 if tensor.spec.dtype.bits == 64 else np.int32).astype(np.int64)
