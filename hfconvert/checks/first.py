"""Where a written tensor first differs from its source, value by value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from hfconvert.checks.blocks import cut, start_of, tiles
from hfconvert.checks.disk import DiskFile
from hfconvert.checks.gather import stride_of, values_at
from hfconvert.checks.rounding import differs
from hfconvert.checks.runs import first_in_run, runs_of
from hfconvert.checks.sample import every_block
from hfconvert.tensors.box import Shape
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.header import HeaderEntry
from hfconvert.tensors.lazy import LazyTensor, Mesh, Place, RawArray
from hfconvert.tensors.source import ByteSource

Coordinates = tuple[int, ...]
Blocks = Callable[[str, Shape, int], Iterator[Mesh]]  # name, extent, bytes of an element


def first_difference(
    written: DiskFile, entry: HeaderEntry, tensor: LazyTensor, blocks: Blocks = every_block
) -> Coordinates | None:
    """The coordinates of the first written value that is not the source's, rounded where it was cast.

    Only the values in `blocks` are looked at.
    """
    unit = entry.spec.dtype.itemsize
    fast = _fast_axis(tensor) if blocks is every_block else None
    chosen = (
        blocks(entry.name, tensor.extent, unit)
        if fast is None
        else tiles(tensor.extent, unit, fast)
    )
    found = (_first_in(mesh, written, entry, tensor) for mesh in chosen)
    return next((at for at in found if at is not None), None)


def _first_in(
    mesh: Mesh, written: DiskFile, entry: HeaderEntry, tensor: LazyTensor
) -> Coordinates | None:
    """As `first_difference`, in one mesh: by runs where it is made of them."""
    runs = runs_of(tensor.where(mesh), mesh, tensor.extent)
    if runs is not None:
        found = (first_in_run(run, written, entry) for run in runs)
        first = next((number for number in found if number is not None), None)
        return None if first is None else tuple(map(int, np.unravel_index(first, tensor.extent)))
    parts = cut(mesh, entry.spec.dtype.itemsize)
    among = (_first_among(part, written, entry, tensor) for part in parts)
    return next((at for at in among if at is not None), None)


def _first_among(
    mesh: Mesh, written: DiskFile, entry: HeaderEntry, tensor: LazyTensor
) -> Coordinates | None:
    """As `first_difference`, in one mesh, wherever its values lie."""
    result = _written(written.file, entry, tensor.extent, mesh)
    held = 0
    for place in tensor.where(mesh):
        at = _difference_at(place, result, mesh, entry.spec.dtype)
        if at is not None:
            return at
        held += prod(map(len, place.select))
    if held < result.size:  # nothing is right that was held against nothing
        return tuple(int(axis[0]) for axis in mesh)
    return None


def _written(written: ByteSource, entry: HeaderEntry, extent: Shape, mesh: Mesh) -> RawArray:
    """The written values of a mesh whose coordinates follow each other along every axis."""
    dtype = entry.spec.dtype
    size = prod(map(len, mesh))
    start = start_of(mesh, extent)
    if size == 1 or start_of(tuple(axis[-1:] for axis in mesh), extent) - start == size - 1:
        result = np.empty(tuple(map(len, mesh)), dtype.raw)
        position = entry.start + start * dtype.itemsize
        written.readinto(memoryview(result.reshape(-1).view(np.uint8)), position)
        return result
    strides = (prod(extent[axis + 1 :]) for axis in range(len(extent)))
    steps = tuple(axis * stride for axis, stride in zip(mesh, strides, strict=True))
    select = tuple(np.arange(len(axis)) for axis in mesh)
    return values_at(Place(written, dtype, entry.start, dtype.itemsize, steps, select))


def _fast_axis(tensor: LazyTensor) -> int | None:
    """The axis along which neighbours are nearest in the source, where that is not the last one."""
    corner = tuple(np.arange(min(2, size), dtype=np.int64) for size in tensor.extent)
    place = None if 0 in tensor.extent else next(tensor.where(corner), None)
    strides = [stride_of(step) for step in place.steps] if place else []
    if not strides or strides[-1] == 1 or min(strides) == strides[-1]:
        return None
    return strides.index(min(strides))


def _difference_at(place: Place, result: RawArray, mesh: Mesh, dtype: DType) -> Coordinates | None:
    everything = result.shape == tuple(map(len, place.select))
    part = result if everything else result[np.ix_(*place.select)]
    wrong = differs(part, values_at(place), place.dtype, dtype)
    if not wrong.any():
        return None
    first = np.argwhere(wrong)[0]
    picked = zip(mesh, place.select, first, strict=True)
    return tuple(int(axis[select[i]]) for axis, select, i in picked)
