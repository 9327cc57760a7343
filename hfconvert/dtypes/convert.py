"""Raw values of one floating type to raw values of another, rounded once to nearest, ties to even.

By numpy and ml_dtypes, which equal torch on every value of every pair of types tried; NaN stays NaN, though
its payload is that of the library. From F64 to a type narrower than F32 the value passes through F32, as it
does in torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from hfconvert.tensors.dtype import DType
from hfconvert.tensors.lazy import RawArray
from hfconvert.tensors.tally import Loss

# The numpy type behind each floating code. F8_E8M0 holds exponents of scales and is never cast.
FLOATS: Mapping[str, np.dtype[Any]] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
}
_WIDE = {"F64", "F32"}


def convert(raw: RawArray, source: DType, target: DType) -> tuple[RawArray, Loss]:
    """Cast raw values of `source` to raw values of `target`, and count what was lost.

    A value that was finite and is not any more has overflowed; one that was not zero and is zero has
    underflowed.
    """
    result = np.empty(raw.shape, target.raw)
    return result, convert_into(result, raw, source, target)


def convert_into(out: RawArray, raw: RawArray, source: DType, target: DType) -> Loss:
    """As `convert`, into an array of the same shape with any strides."""
    values = raw.view(FLOATS[source.code])
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if source.code == "F64" and target.code not in _WIDE:
            values = values.astype(np.float32)
        np.copyto(out.view(FLOATS[target.code]), values, casting="unsafe")
    return Loss(*_lost(raw, out, source, target), raw.size)


def _lost(raw: RawArray, result: RawArray, source: DType, target: DType) -> tuple[int, int]:
    """Overflow and underflow; values are counted only where the extremes say that there may be one."""
    if not result.size:
        return 0, 0
    overflow = underflow = 0
    largest, has_zero = _extremes(result, target)
    if target.code.endswith("FNUZ") or largest > LARGEST[target.code]:
        overflow = int(np.count_nonzero(_not_finite(result, target) & ~_not_finite(raw, source)))
    if has_zero:
        underflow = int(np.count_nonzero(_zero(result, target) & ~_zero(raw, source)))
    return overflow, underflow


def _extremes(raw: RawArray, dtype: DType) -> tuple[int, bool]:
    """The largest magnitude, by its bits, and whether there is a zero of either sign.

    Bits order positive values as signed integers do, negative ones by magnitude as unsigned integers do.
    """
    signed = raw.view(f"i{dtype.itemsize}")
    sign = 1 << (dtype.bits - 1)
    top = int(raw.max())
    largest = max(int(signed.max()), top - sign)
    zero = int(raw.min()) == 0 or int(signed.min()) == -sign
    return largest, zero


def _not_finite(raw: RawArray, dtype: DType) -> RawArray:
    """Where raw values are infinite or NaN, by their bits."""
    if dtype.code.endswith("FNUZ"):  # the one NaN is the sign alone
        found: RawArray = raw == raw.dtype.type(1 << (dtype.bits - 1))
        return found
    beyond: RawArray = _magnitude(raw, dtype) > raw.dtype.type(LARGEST[dtype.code])
    return beyond


def _zero(raw: RawArray, dtype: DType) -> RawArray:
    value = raw if dtype.code.endswith("FNUZ") else _magnitude(raw, dtype)
    zero: RawArray = value == 0
    return zero


def _magnitude(raw: RawArray, dtype: DType) -> RawArray:
    """Bits without the sign."""
    magnitude: RawArray = raw & raw.dtype.type((1 << (dtype.bits - 1)) - 1)
    return magnitude


# The bits of the largest finite magnitude of each type.
LARGEST: Mapping[str, int] = {
    "F64": 0x7FEF_FFFF_FFFF_FFFF,
    "F32": 0x7F7F_FFFF,
    "F16": 0x7BFF,
    "BF16": 0x7F7F,
    "F8_E4M3": 0x7E,
    "F8_E5M2": 0x7B,
    "F8_E4M3FNUZ": 0x7F,
    "F8_E5M2FNUZ": 0x7F,
}
