"""Casts between floating types by integer arithmetic alone: the second route of the `tensors` check.

Shares nothing with `hfconvert.dtypes`. IEEE 754 round to nearest, ties to even, on raw bits. Formats are
described by their exponent and mantissa widths; source: IEEE 754-2019, and the OCP 8-bit floating point
specification for F8_E4M3 (no infinity, one NaN magnitude) and F8_E5M2.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    if from_type == to_type:
        unequal: Flags = result != source
        return unequal
    if from_type.code == "F32" and to_type.code == "BF16":
        return _differs_bf16(result, source)
    before, after = LAYOUTS[from_type.code], LAYOUTS[to_type.code]
    both_nan = is_nan(source, before) & is_nan(result, after)
    if from_type.code == "F64" and to_type.code != "F32":  # through F32, as torch does
        source, before = rounded(source, before, LAYOUTS["F32"]), LAYOUTS["F32"]
    wrong: Flags = (result != rounded(source, before, after)) & ~both_nan
    return wrong


def rounded(raw: Bits, before: Layout, after: Layout) -> Bits:
    """Bits of `before` rounded to bits of `after`; what is too large becomes its overflow magnitude."""
    bits = raw.astype(_INT)
    width = before.exponent + before.mantissa
    sign = (raw >> raw.dtype.type(width)).astype(_INT) & 1
    magnitude = bits & ((1 << width) - 1)
    significand, scale = _normal(magnitude, before)
    out = _packed(significand, scale, before.mantissa, after)
    out = np.where(magnitude > before.largest, after.overflow, out)
    if after.unsigned_zero:
        sign = np.where((out == 0) | (out == after.overflow), 0, sign)
    out = out | (sign << (after.exponent + after.mantissa))
    packed: Bits = out.astype(f"u{(1 + after.exponent + after.mantissa) // 8}")
    return packed


def is_nan(raw: Bits, layout: Layout) -> Flags:
    """Where raw bits are NaN."""
    width = layout.exponent + layout.mantissa
    if layout.unsigned_zero:
        alone: Flags = raw == raw.dtype.type(1 << width)
        return alone
    magnitude = raw & raw.dtype.type((1 << width) - 1)
    infinite = layout.overflow & ((1 << layout.mantissa) - 1) == 0
    found: Flags = magnitude > layout.largest + int(infinite)
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


def _differs_bf16(result: Bits, source: Bits) -> Flags:
    """The common case in 32-bit steps: add half of the last kept bit, ties to even, cut."""
    expected = source >> np.uint32(16)
    expected &= np.uint32(1)
    expected += np.uint32(0x7FFF)
    expected += source
    expected >>= np.uint32(16)
    wrong: Flags = expected.astype(np.uint16) != result
    if wrong.any():
        wrong &= ~(is_nan(source, LAYOUTS["F32"]) & is_nan(result, LAYOUTS["BF16"]))
    return wrong
