"""Blocks of a tensor for a second route: of another size than the writer's, named by coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import isqrt, prod

import numpy as np

from hfconvert.tensors.box import Box, Shape
from hfconvert.tensors.lazy import Mesh

ROWS_BYTES = 3 << 16  # bytes of one comparison: unlike the writer's block on purpose
WIDE_BYTES = 3 << 26  # of a comparison in slices, where values lie as in the source
LONGEST = 1 << 17  # coordinates of one axis: each is an integer in memory


def meshes(extent: Shape, unit: int) -> Iterator[Mesh]:
    """Coordinates of the whole extent in row-major runs: some rows, or part of one row at a time.

    `unit` is the bytes of one element.
    """
    return _meshes(extent, _steps(extent, ROWS_BYTES // unit))


def wide_meshes(extent: Shape, unit: int) -> Iterator[Mesh]:
    """As `meshes`, of many more rows."""
    return _meshes(extent, _steps(extent, WIDE_BYTES // unit, LONGEST))


def cut(mesh: Mesh, unit: int) -> Iterator[Mesh]:
    """A wide mesh as `meshes` would have it."""
    for part in meshes(tuple(map(len, mesh)), unit):
        yield tuple(axis[index] for axis, index in zip(mesh, part, strict=True))


def _meshes(extent: Shape, steps: list[int]) -> Iterator[Mesh]:
    if 0 in extent:
        return
    ranges = [range(0, size, step) for size, step in zip(extent, steps, strict=True)]
    for corner in product(*ranges):
        yield _mesh(corner, steps, extent)


def tiles(extent: Shape, unit: int, fast: int) -> Iterator[Mesh]:
    """As `meshes`, for data that lie in the source in another order: square in axis `fast` and the last.

    Neither the source nor the result has then to be read by single elements.
    """
    if 0 in extent:
        return
    room = max(1, ROWS_BYTES // unit)
    steps = [1] * len(extent)
    steps[-1] = min(extent[-1], isqrt(room))
    for axis in (fast, len(extent) - 1, *range(len(extent) - 2, -1, -1)):
        others = prod(steps) // steps[axis]
        steps[axis] = max(1, min(extent[axis], room // others))
    ranges = [range(0, size, step) for size, step in zip(extent, steps, strict=True)]
    for corner in product(*ranges):
        yield _mesh(corner, steps, extent)


def mesh_count(extent: Shape, unit: int) -> int:
    """How many meshes `meshes` gives."""
    if 0 in extent:
        return 0
    steps = _steps(extent, ROWS_BYTES // unit)
    return prod(-(-size // step) for size, step in zip(extent, steps, strict=True))


def mesh_at(extent: Shape, unit: int, number: int) -> Mesh:
    """The mesh of that number, as `meshes` counts them."""
    steps = _steps(extent, ROWS_BYTES // unit)
    counts = [-(-size // step) for size, step in zip(extent, steps, strict=True)]
    corner = []
    for count, step in zip(reversed(counts), reversed(steps), strict=True):
        number, place = divmod(number, count)
        corner.append(place * step)
    return _mesh(tuple(reversed(corner)), steps, extent)


def box_of(mesh: Mesh) -> Box:
    """The box of a mesh, whose coordinates follow each other."""
    return tuple((int(axis[0]), int(axis[-1]) + 1) for axis in mesh)


def start_of(mesh: Mesh, extent: Shape) -> int:
    """The row-major position of the first element of a mesh."""
    position = 0
    for axis, size in zip(mesh, extent, strict=True):
        position = position * size + int(axis[0])
    return position


def _steps(extent: Shape, room: int, longest: int | None = None) -> list[int]:
    """How far a mesh of at most `room` elements reaches along each axis, `longest` at most."""
    steps = []
    for size in reversed(extent):
        step = max(1, min(size, room, longest or size))
        steps.append(step)
        room = room // size if step == size else 0
    return list(reversed(steps))


def _mesh(corner: Shape, steps: list[int], extent: Shape) -> Mesh:
    return tuple(
        np.arange(lo, min(lo + step, size), dtype=np.int64)
        for lo, step, size in zip(corner, steps, extent, strict=True)
    )
