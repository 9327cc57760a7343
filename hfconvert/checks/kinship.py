"""What a tensor that differs from its source may be: another tensor's values, a transpose, rows rearranged.

A guess for people, confirmed value by value where it names a tensor. Bounded: the first values of every
candidate for a guess are compared, whole tensors only where those agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from hfconvert.checks.blocks import box_of, meshes
from hfconvert.checks.differences import difference
from hfconvert.checks.gather import values_at
from hfconvert.checks.rounding import LAYOUTS, rounded
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.lazy import LazyTensor, Mesh, RawArray
from hfconvert.tensors.reorder import Permute

PROBE = 4096  # values compared before whole tensors are
MOST = 256  # tensors that are looked into
ROWS = 1 << 16  # rows that are looked at for another order

Tensors = Mapping[str, LazyTensor]


def kinship(
    pairs: Iterable[tuple[str, str]], source: Tensors, candidate: Tensors
) -> Iterator[tuple[str, str]]:
    """What the values are instead, for pairs of names (candidate, source) whose values differ."""
    known: dict[tuple[object, ...], list[str]] = {}
    for name, tensor in source.items():
        known.setdefault((tensor.spec.dtype, tensor.spec.shape), []).append(name)
    for number, (theirs, ours) in enumerate(pairs):
        if number >= MOST:
            return
        said = _said(ours, candidate[theirs], source, known)
        if said:
            yield theirs, said


def _said(
    ours: str, tensor: LazyTensor, source: Tensors, known: Mapping[tuple[object, ...], list[str]]
) -> str | None:
    origin = source[ours]
    alike = known[origin.spec.dtype, origin.spec.shape]
    other = next((name for name in alike if name != ours and _equal(source[name], tensor)), None)
    if other is not None:
        return f"these are the values of {other}"
    if len(origin.spec.shape) == 2 and origin.spec.dtype.bits % 8 == 0:
        if origin.spec.shape[0] == origin.spec.shape[1] and _equal(Permute(origin, (1, 0)), tensor):
            return "these are the source's values transposed"
        if origin.spec.shape[0] <= ROWS and _rows(origin, tensor) == _rows(tensor, tensor):
            return "these are the source's rows in another order"
    return None


def _equal(source: LazyTensor, candidate: LazyTensor) -> bool:
    mesh = _probe(candidate)
    if mesh is None:
        return False
    dtype = candidate.spec.dtype
    same = np.array_equal(_values(source, mesh, dtype), _values(candidate, mesh, dtype))
    return same and difference(source, candidate) is None


def _probe(tensor: LazyTensor) -> Mesh | None:
    """The first values: part of the last dimension that is longer than one."""
    if 0 in tensor.extent:
        return None
    room, axes = PROBE, []
    for size in reversed(tensor.extent):
        axes.append(np.arange(min(size, room), dtype=np.int64))
        room = max(1, room // size)
    return tuple(reversed(axes))


def _values(tensor: LazyTensor, mesh: Mesh, dtype: DType) -> RawArray:
    """Raw values at a mesh, rounded to another floating type where that is another."""
    result = np.empty(tuple(len(axis) for axis in mesh), dtype.raw)
    for place in tensor.where(mesh):
        values = values_at(place)
        if place.dtype != dtype:
            values = rounded(values, LAYOUTS[place.dtype.code], LAYOUTS[dtype.code])
        result[np.ix_(*place.select) if place.select else ...] = values
    return result


def _rows(tensor: LazyTensor, like: LazyTensor) -> list[int]:
    """A sum over each row that no other row is likely to share, sorted."""
    dtype = like.spec.dtype
    sums = np.zeros(tensor.extent[0], np.uint64)
    weights = np.arange(1, 2 * tensor.extent[1], 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for mesh in meshes(tensor.extent, dtype.itemsize):
        (top, bottom), (left, right) = box_of(mesh)
        values = _values(tensor, mesh, dtype).astype(np.uint64) + np.uint64(1)
        sums[top:bottom] += (values * values * weights[left:right]).sum(axis=1, dtype=np.uint64)
    return sorted(sums.tolist())
