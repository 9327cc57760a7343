"""Casts between floating types by integer arithmetic alone: the second route of the `tensors` check.

Shares nothing with `hfconvert.dtypes`. IEEE 754 round to nearest, ties to even, on raw bits. Formats are
described by their exponent and mantissa widths; source: IEEE 754-2019, and the OCP 8-bit floating point
specification for F8_E4M3 (no infinity, one NaN magnitude) and F8_E5M2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfconvert.tensors.dtype import DType

Bits = NDArray[Any]
Flags = NDArray[np.bool_]
_INT = np.int64


class Layout(NamedTuple):
    """Widths of exponent and mantissa, exponent bias, largest finite magnitude, magnitude of overflow."""

    exponent: int
    mantissa: int
    bias: int
    largest: int
    overflow: int  # infinity, or NaN where the type has none
    unsigned_zero: bool = False  # the sign alone is NaN, and there is no negative zero


LAYOUTS: Mapping[str, Layout] = {
    "F64": Layout(11, 52, 1023, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000),
    "F32": Layout(8, 23, 127, 0x7F7FFFFF, 0x7F800000),
    "F16": Layout(5, 10, 15, 0x7BFF, 0x7C00),
    "BF16": Layout(8, 7, 127, 0x7F7F, 0x7F80),
    "F8_E4M3": Layout(4, 3, 7, 0x7E, 0x7F),
    "F8_E5M2": Layout(5, 2, 15, 0x7B, 0x7C),
    "F8_E4M3FNUZ": Layout(4, 3, 8, 0x7F, 0x80, unsigned_zero=True),
    "F8_E5M2FNUZ": Layout(5, 2, 16, 0x7F, 0x80, unsigned_zero=True),
}


def differs(result: Bits, source: Bits, from_type: DType, to_type: DType) -> Flags:
    """Where written bits are not what the source's bits round to; any NaN stands for any NaN."""
    return unequal(from_type, to_type)(result, source)


@cache
def unequal(from_type: DType, to_type: DType) -> Callable[[Bits, Bits], Flags]:
    """`differs` of two types, as a function of written bits and the source's."""
    if from_type == to_type:
        return np.not_equal
    before, after = LAYOUTS[from_type.code], LAYOUTS[to_type.code]
    single = LAYOUTS["F32"]
    through = from_type.code == "F64" and to_type.code != "F32"  # as torch does

    def compare(result: Bits, source: Bits) -> Flags:
        short = rounded(source, before, single) if through else source
        wrong: Flags = result != rounded(short, single if through else before, after)
        if wrong.any():
            wrong &= ~(is_nan(source, before) & is_nan(result, after))
        return wrong

    return compare


def rounded(raw: Bits, before: Layout, after: Layout) -> Bits:
    """Bits of `before` rounded to bits of `after`; what is too large becomes its overflow, NaN some NaN."""
    if raw.itemsize <= 2:
        return _all_rounded(before, after).take(raw)
    flat = raw.reshape(-1)
    if after.mantissa >= before.mantissa:
        return _rounded(flat, before, after).reshape(raw.shape)
    packed, special = _shortened(flat, before, after)
    if special is not None and special.any():
        packed[special] = _rounded(flat[special], before, after)
    return packed.reshape(raw.shape)


@cache
def _all_rounded(before: Layout, after: Layout) -> Bits:
    """What every number of a short type is rounded to; there are 65,536 of them at most."""
    every = np.arange(1 << (1 + before.exponent + before.mantissa)).astype(_raw(before))
    return _rounded(every, before, after)


class _Shortening(NamedTuple):
    """The constants by which bits are shortened, as integers of their own width."""

    shift: Any
    added: Any
    one: Any
    magnitude: Any
    infinite: Any  # the magnitude of infinity, and the bits of minus infinity
    minus_infinite: Any
    signed: str
    sign_shift: Any
    sign: Any
    normal: Any  # the smallest number that is normal after, and how far the largest is from that
    reach: Any
    packed: str


@cache
def _shortening(before: Layout, after: Layout) -> _Shortening:
    width, short = before.exponent + before.mantissa, after.exponent + after.mantissa
    unit = np.dtype(_raw(before)).type
    shift = before.mantissa - after.mantissa
    rebased = (1 << (shift - 1)) - 1 - ((before.bias - after.bias) << before.mantissa)
    infinite = ((1 << before.exponent) - 1) << before.mantissa
    normal = 1 << after.mantissa
    return _Shortening(
        shift=unit(shift),
        added=unit(rebased % (1 << (width + 1))),
        one=unit(1),
        magnitude=unit((1 << width) - 1),
        infinite=unit(infinite),
        minus_infinite=unit(infinite | 1 << width),
        signed=f"i{unit().itemsize}",
        sign_shift=unit(width - short),
        sign=unit(1 << short),
        normal=unit(normal),
        reach=unit(after.largest - normal),
        packed=_raw(after),
    )


def _shortened(raw: Bits, before: Layout, after: Layout) -> tuple[Bits, Flags | None]:
    """Bits rounded in few steps of their own width, and where that is not how it is done, if anywhere.

    Half of the last kept bit is added, less one where that bit is even, and the rest is cut off: right for
    what is normal in both types, and for all that is finite where their exponents are equally wide.
    """
    by = _shortening(before, after)
    if before.exponent == after.exponent:
        return _cut(raw, by).astype(by.packed), _not_finite(raw, by)
    kept = _cut(raw & by.magnitude, by)
    special: Flags = kept - by.normal > by.reach
    kept |= raw >> by.sign_shift & by.sign
    return kept.astype(by.packed), special


def _cut(raw: Bits, by: _Shortening) -> Bits:
    """The bits above the shift, once a constant and the last of them were added to all of them."""
    kept: Bits = raw >> by.shift
    kept &= by.one
    kept += raw
    kept += by.added
    kept >>= by.shift
    return kept


def _not_finite(raw: Bits, by: _Shortening) -> Flags | None:
    """Where bits are infinite or NaN; None where none are, which the largest of them tells."""
    if not raw.size or (raw.view(by.signed).max() < by.infinite and raw.max() < by.minus_infinite):
        return None
    found: Flags = raw & by.magnitude >= by.infinite
    return found


def _raw(layout: Layout) -> str:
    """The unsigned integer that holds the bits."""
    return f"u{(1 + layout.exponent + layout.mantissa) // 8}"


def _rounded(raw: Bits, before: Layout, after: Layout) -> Bits:
    """The same for every number of every pair of types, in steps of 64 bits."""
    bits = raw.astype(_INT)
    width = before.exponent + before.mantissa
    sign = (raw >> raw.dtype.type(width)).astype(_INT) & 1
    magnitude = bits & ((1 << width) - 1)
    significand, scale = _normal(magnitude, before)
    out = _packed(significand, scale, before.mantissa, after)
    out = np.where(magnitude > before.largest, after.overflow, out)
    out = np.where(is_nan(raw, before), after.overflow | _quiet(after), out)
    if after.unsigned_zero:
        sign = np.where((out == 0) | (out == after.overflow), 0, sign)
    out = out | (sign << (after.exponent + after.mantissa))
    packed: Bits = out.astype(_raw(after))
    return packed


def is_finite(raw: Bits, layout: Layout) -> Flags:
    """Where raw bits are a finite number."""
    if layout.unsigned_zero:
        return ~is_nan(raw, layout)
    width = layout.exponent + layout.mantissa
    found: Flags = raw & raw.dtype.type((1 << width) - 1) <= layout.largest
    return found


def _quiet(layout: Layout) -> int:
    """The bit that makes NaN of infinity; nothing where there is no infinity."""
    return 1 << (layout.mantissa - 1) if _has_infinity(layout) else 0


def _has_infinity(layout: Layout) -> bool:
    return layout.overflow & ((1 << layout.mantissa) - 1) == 0 and not layout.unsigned_zero


def is_nan(raw: Bits, layout: Layout) -> Flags:
    """Where raw bits are NaN."""
    width = layout.exponent + layout.mantissa
    if layout.unsigned_zero:
        alone: Flags = raw == raw.dtype.type(1 << width)
        return alone
    magnitude = raw & raw.dtype.type((1 << width) - 1)
    found: Flags = magnitude > layout.largest + int(_has_infinity(layout))
    return found


def _normal(magnitude: Bits, layout: Layout) -> tuple[Bits, Bits]:
    """Significands with their leading bit at the mantissa's width, and their binary exponents."""
    stored = magnitude >> layout.mantissa
    fraction = magnitude & ((1 << layout.mantissa) - 1)
    subnormal = stored == 0
    significand = np.where(subnormal, fraction, fraction | (1 << layout.mantissa))
    scale = np.where(subnormal, 1 - layout.bias, stored - layout.bias)
    for step in (32, 16, 8, 4, 2, 1):
        if step > layout.mantissa:
            continue
        low = subnormal & (significand != 0) & (significand < (1 << (layout.mantissa + 1 - step)))
        significand = np.where(low, significand << step, significand)
        scale = np.where(low, scale - step, scale)
    return significand, scale


def _packed(significand: Bits, scale: Bits, mantissa: int, after: Layout) -> Bits:
    """Round significands to the mantissa of `after`; a carry moves into the exponent by itself."""
    lowest = 1 - after.bias
    short = np.clip(lowest - scale, 0, 62)  # further to the right where the result is subnormal
    shift = mantissa - after.mantissa + short
    left = np.clip(-shift, 0, 62)
    right = np.clip(shift, 0, 62)
    value = significand << left
    half = np.where(right > 0, 1 << np.maximum(right - 1, 0), 0)
    odd = (value >> right) & 1
    value = np.where(right > 0, (value + half - 1 + odd) >> right, value)
    base = np.where(short > 0, 0, (scale + after.bias - 1) << after.mantissa)
    out = np.where(significand == 0, 0, base + value)
    return np.where(out > after.largest, after.overflow, out)
