"""How two tensors differ: counted, located, and shown as numbers. By blocks, as raw integers.

The source is read at the places that `where` names; a cast that lies between is done again by integer
arithmetic. Bits count: signed zeros and NaN payloads differ, except where a value was cast.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hfconvert.checks.blocks import box_of, meshes
from hfconvert.checks.gather import values_at
from hfconvert.checks.rounding import LAYOUTS, differs, is_finite, is_nan, rounded
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.lazy import LazyTensor, Mesh, Place, RawArray


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one tensor: how many of its values differ, where the first does, and what stands there.

    `largest` is the largest absolute difference of finite values, None where they are no floats.
    """

    count: int
    values: int
    first: tuple[int, ...]
    source: str
    candidate: str
    largest: float | None

    def __str__(self) -> str:
        place = f" at {list(self.first)}" if self.first else ""
        differ = "values differ" if self.values > 1 else "value differs"
        text = f"{self.count:,} of {self.values:,} {differ}"
        text += f", the first{place}: {self.source} in the source, {self.candidate} here"
        return text if self.largest is None else f"{text}; at most by {self.largest:.3g}"


def can_compare(before: DType, after: DType) -> bool:
    """Whether values of one type can be held against those of another: equal types, or both floats."""
    return before == after or (before.code in LAYOUTS and after.code in LAYOUTS)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a candidate differs from its source, and how many finite values of that overflow in it."""

    difference: Difference | None
    overflow: int


def difference(source: LazyTensor, candidate: LazyTensor) -> Difference | None:
    """How the candidate differs from the source, or None. Shapes are equal, types can be compared."""
    return held_against(source, candidate).difference


def held_against(source: LazyTensor, candidate: LazyTensor) -> Comparison:
    """The candidate held against the source. Shapes are equal, types can be compared."""
    raw = candidate.spec.dtype.raw
    found: Difference | None = None
    overflow = 0
    for mesh in meshes(candidate.extent, raw.itemsize):
        result = np.empty(tuple(len(axis) for axis in mesh), raw)
        candidate.fill(result, box_of(mesh))
        for place in source.where(mesh):
            part = result[np.ix_(*place.select)] if place.select else result
            values = values_at(place)
            found = _added(found, _of_part(place, values, part, mesh, candidate.spec.dtype))
            overflow += _overflowing(values, place.dtype, part, candidate.spec.dtype)
    return Comparison(found and replace(found, values=candidate.spec.elements), overflow)


def shown(raw: RawArray, dtype: DType) -> str:
    """One raw value as a number, or as its bits where it is none."""
    if dtype.code in LAYOUTS:
        return f"{float(_wide(raw.reshape(1), dtype)[0]):.9g}"
    if dtype.kind == "int":
        signed = raw.dtype.str.replace("u", "i") if dtype.code.startswith("I") else raw.dtype.str
        return str(raw.reshape(1).view(signed)[0])
    return "true" if dtype.kind == "bool" and raw else f"0x{raw.tobytes()[::-1].hex()}"


def _overflowing(source: RawArray, before: DType, result: RawArray, after: DType) -> int:
    """How many finite numbers became infinite, or NaN where a type has no infinity."""
    if before == after or before.code not in LAYOUTS or after.code not in LAYOUTS:
        return 0
    gone = ~is_finite(result, LAYOUTS[after.code])
    return (
        int(np.count_nonzero(gone & is_finite(source, LAYOUTS[before.code]))) if gone.any() else 0
    )


def _of_part(
    place: Place, values: RawArray, part: RawArray, mesh: Mesh, dtype: DType
) -> Difference | None:
    wrong = differs(part, values, place.dtype, dtype)
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    first = tuple(np.argwhere(wrong)[0])
    picked = zip(mesh, place.select, first, strict=True)
    return Difference(
        count,
        part.size,
        tuple(int(axis[select[i]]) for axis, select, i in picked),
        shown(values[first], place.dtype),
        shown(part[first], dtype),
        _largest(values[wrong], place.dtype, part[wrong], dtype),
    )


def _largest(source: RawArray, before: DType, result: RawArray, after: DType) -> float | None:
    if before.code not in LAYOUTS or after.code not in LAYOUTS:
        return None
    gaps = np.abs(_wide(result, after) - _wide(source, before))
    finite = gaps[np.isfinite(gaps)]
    return float(finite.max()) if finite.size else None


def _wide(raw: RawArray, dtype: DType) -> RawArray:
    """Raw floating values as float64, exactly."""
    layout = LAYOUTS[dtype.code]
    wide = raw if dtype.code == "F64" else rounded(raw, layout, LAYOUTS["F64"])
    values: RawArray = np.ascontiguousarray(wide).view(np.float64)
    return np.where(is_nan(raw, layout), np.nan, values)


def _added(one: Difference | None, other: Difference | None) -> Difference | None:
    if one is None or other is None:
        return one or other
    gaps = [gap for gap in (one.largest, other.largest) if gap is not None]
    largest = max(gaps, default=None)
    return Difference(
        one.count + other.count,
        one.values + other.values,
        one.first,
        one.source,
        one.candidate,
        largest,
    )
