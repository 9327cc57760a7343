"""Source values for the `tensors` check: read at the places that `where` names, by code of its own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hfconvert.tensors.lazy import Mesh, Place, RawArray

SPAN_BYTES = 8 << 20  # bytes of source read at once where elements are scattered
GAP_BYTES = 4096  # a wider gap costs more to read through than another read
RUN_BYTES = 256  # runs of this length are worth a read of their own


def values_at(place: Place) -> RawArray:
    """The raw elements of a place: one read where they follow each other, else by runs, else scattered.

    Axes are taken in the order of the source, whatever theirs is.
    """
    axes = sorted(range(len(place.steps)), key=lambda axis: -stride_of(place.steps[axis]))
    turned = _in_source_order(place, tuple(place.steps[axis] for axis in axes))
    return turned.transpose(np.argsort(axes)) if axes else turned


def follow_each_other(place: Place) -> bool:
    """Whether the elements of a place lie in the source as they are counted, with nothing between them."""
    return _run_axes(place.steps) == 0


def stride_of(steps: NDArray[np.int64]) -> int:
    """How far the first step along an axis leads; far away where there is none."""
    distance = abs(int(steps[1]) - int(steps[0])) if len(steps) > 1 else 0
    return distance or 1 << 62


def _in_source_order(place: Place, steps: Mesh) -> RawArray:
    shape = tuple(len(step) for step in steps)
    inner = _run_axes(steps)
    run = int(np.prod(shape[inner:], dtype=np.int64))
    heads = _sums(steps[:inner])
    if run * place.itemsize < RUN_BYTES and len(heads) > 1:
        return _scattered(place, _sums(steps)).reshape(shape)
    values = np.empty((len(heads), run), place.dtype.raw)
    begin = sum(int(step[0]) for step in steps[inner:])
    for row, head in zip(values, heads, strict=True):
        _read(place, int(head) + begin, row)
    return values.reshape(shape)


def _run_axes(steps: Mesh) -> int:
    """The first axis from which on all elements follow each other in the source."""
    length = 1
    for axis in range(len(steps) - 1, -1, -1):
        step = steps[axis]
        if not (step[1:] - step[:-1] == length).all():
            return axis + 1
        length *= len(step)
    return 0


def _sums(steps: Mesh) -> RawArray:
    """All the sums of one element of each array, in row-major order."""
    return reduce(
        lambda left, right: np.add.outer(left, right).reshape(-1), steps, np.zeros(1, np.int64)
    )


def _scattered(place: Place, numbers: RawArray) -> RawArray:
    """Single elements: sorted, and read in spans of bounded size with no wide gap in them."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    values = np.empty(len(numbers), place.dtype.raw)
    gaps = np.flatnonzero(np.diff(ordered) * place.itemsize > GAP_BYTES) + 1
    for begin, end in pairwise([0, *gaps.tolist(), len(ordered)]):
        for lo, hi in _spans(ordered, begin, end, SPAN_BYTES // place.itemsize):
            buffer = np.empty(int(ordered[hi - 1] - ordered[lo]) + 1, place.dtype.raw)
            _read(place, int(ordered[lo]), buffer)
            values[order[lo:hi]] = buffer[ordered[lo:hi] - ordered[lo]]
    return values


def _spans(ordered: RawArray, begin: int, end: int, reach: int) -> Iterator[tuple[int, int]]:
    """Cut positions `begin` to `end` where elements would lie further apart than `reach`."""
    while begin < end:
        beyond = begin + int(np.searchsorted(ordered[begin:end], ordered[begin] + reach))
        yield begin, beyond
        begin = beyond


def _read(place: Place, element: int, out: RawArray) -> None:
    offset = place.start + element * place.itemsize
    place.source.readinto(memoryview(out.view(np.uint8)), offset)
