"""Boxes: rectangular parts of a tensor, and how a tensor is cut into blocks."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

Shape = tuple[int, ...]
Box = tuple[tuple[int, int], ...]  # (lo, hi) for every dimension


def full(extent: Shape) -> Box:
    """The box that covers the whole extent."""
    return tuple((0, size) for size in extent)


def shape_of(box: Box) -> Shape:
    """The shape of the part that the box cuts out."""
    return tuple(hi - lo for lo, hi in box)


def blocks(extent: Shape, unit: int, limit: int, grain: int = 1) -> Iterator[Box]:
    """Cut an extent into boxes of at most `limit` bytes that follow each other in row-major order.

    `unit` is the bytes of one raw unit. A box spans part of one dimension, all of the dimensions after it
    and one index of those before it, so that it is one run of bytes in the output. Cuts along dimension 0
    lie at multiples of `grain`, whatever the limit. An extent with no elements has no blocks.
    """
    if 0 in extent:
        return
    axis, inner = _cut_axis(extent, unit, limit, grain)
    if axis is None:
        yield full(extent)
        return
    step = max(1, limit // inner)
    if axis == 0:
        step = max(grain, step // grain * grain)
    tail = full(extent[axis + 1 :])
    for lead in _indices(extent[:axis]):
        head = tuple((index, index + 1) for index in lead)
        for lo in range(0, extent[axis], step):
            yield (*head, (lo, min(lo + step, extent[axis])), *tail)


def offset_of(box: Box, extent: Shape) -> int:
    """The row-major position, in raw units, of the first element of a box."""
    position = 0
    for (lo, _), size in zip(box, extent, strict=True):
        position = position * size + lo
    return position


def _cut_axis(extent: Shape, unit: int, limit: int, grain: int) -> tuple[int | None, int]:
    """The dimension to cut, and the bytes of one step along it; None where one box is small enough."""
    total = prod(extent) * unit
    if total <= limit or not extent:
        return None, total
    inner = total
    for axis, size in enumerate(extent):
        inner //= size
        if inner <= limit or (axis == 0 and grain > 1) or axis == len(extent) - 1:
            return axis, inner
    return None, total


def _indices(extent: Shape) -> Iterator[Shape]:
    if not extent:
        yield ()
        return
    for index in range(extent[0]):
        for rest in _indices(extent[1:]):
            yield (index, *rest)
