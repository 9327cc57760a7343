from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.checks import rounding
from hfconvert.checks.rounding import LAYOUTS, differs, is_nan, rounded
from hfconvert.tensors.dtype import BY_CODE

WIDE = ["F64", "F32", "F16", "BF16"]
PAIRS = [pair for pair in itertools.product(WIDE, LAYOUTS) if pair[0] != pair[1]]
Bits = np.ndarray[Any, Any]


def _samples(code: str) -> Bits:
    """All values of 16 bits; of wider types, random ones, the edges of every range, and ties."""
    raw = BY_CODE[code].raw
    if raw.itemsize == 2:
        return np.arange(1 << 16, dtype=raw)
    layout = LAYOUTS[code]
    random = np.random.default_rng(3)
    bits = random.integers(0, 1 << (8 * raw.itemsize), 50_000, dtype=np.uint64)
    exponents = np.arange(1 << layout.exponent, dtype=np.uint64) << np.uint64(layout.mantissa)
    kept = np.uint64(layout.mantissa - np.arange(1, 11).repeat(9))
    near = np.tile(np.arange(-4, 5), 10).astype(np.uint64)  # around the ties of short mantissas
    ties = (np.uint64(1) << kept) + near
    edges = np.add.outer(exponents, np.append(ties, near)).reshape(-1)
    signs = np.uint64(1) << np.uint64(8 * raw.itemsize - 1)
    every = np.concatenate([bits, edges, edges ^ signs])
    return every.astype(raw)


def _within(source: Bits, before: str, after: str) -> Bits:
    """Without what overflows F8_E4M3, where torch saturates in some versions and gives NaN in others."""
    if after != "F8_E4M3":
        return source
    packed = torch.frombuffer(
        bytearray(source.tobytes()), dtype=getattr(torch, BY_CODE[before].torch)
    )
    kept: Bits = source[~(packed.double().abs() > 464).numpy()]
    return kept


def _cast(source: Bits, before: str, after: str) -> Bits:
    """What torch makes of it."""
    names = [getattr(torch, BY_CODE[code].torch) for code in (before, after)]
    packed = torch.frombuffer(bytearray(source.tobytes()), dtype=names[0])
    result = packed.to(names[1]).view(torch.uint8).numpy().tobytes()
    return np.frombuffer(result, BY_CODE[after].raw)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_what_torch_rounds_to_is_no_difference(before: str, after: str) -> None:
    source = _within(_samples(before), before, after)
    result = _cast(source, before, after)
    wrong = differs(result, source, BY_CODE[before], BY_CODE[after])
    assert not wrong.any(), [hex(bits) for bits in source[wrong][:5]]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_any_other_bit_is_a_difference(before: str, after: str) -> None:
    source = _within(_samples(before)[::17], before, after)
    result = _cast(source, before, after)
    number = ~is_nan(result, LAYOUTS[after])
    for bit in range(8 * result.itemsize):
        changed = result ^ result.dtype.type(1 << bit)
        wrong = differs(changed, source, BY_CODE[before], BY_CODE[after])
        assert wrong[number].all()


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_number_is_never_right_for_nan(before: str, after: str) -> None:
    source = _samples(before)
    source = source[is_nan(source, LAYOUTS[before])]
    numbers = np.arange(256) if BY_CODE[after].itemsize == 1 else _samples(after)[:70_000]
    numbers = numbers.astype(BY_CODE[after].raw)
    numbers = numbers[~is_nan(numbers, LAYOUTS[after])]
    for shift in range(0, len(numbers), max(1, len(numbers) // 50)):
        result = np.resize(np.roll(numbers, shift), source.shape)
        assert differs(result, source, BY_CODE[before], BY_CODE[after]).all()


@pytest.mark.parametrize("after", ["BF16", "F16", "F8_E4M3", "F8_E5M2FNUZ"])
@pytest.mark.parametrize("payload", [0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF, 0x7FFF8000])
def test_nan_that_a_carry_would_turn_into_a_number(after: str, payload: int) -> None:
    """Half of the last kept bit, added to these, gives infinity or runs over into the sign."""
    source = np.array([payload], np.uint32)
    every = np.arange(1 << (8 * BY_CODE[after].itemsize)).astype(BY_CODE[after].raw)
    wrong = differs(every, source.repeat(len(every)), BY_CODE["F32"], BY_CODE[after])
    assert np.array_equal(wrong, ~is_nan(every, LAYOUTS[after]))


@pytest.mark.parametrize(("before", "after"), PAIRS)
@pytest.mark.parametrize("shape", [(-1,), (5, -1)])
def test_short_steps_round_as_the_long_ones(before: str, after: str, shape: Any) -> None:
    source = _samples(before)
    source = source[: len(source) // 5 * 5].reshape(shape)
    found = rounded(source, LAYOUTS[before], LAYOUTS[after])
    assert found.shape == source.shape
    expected = rounding._rounded(source, LAYOUTS[before], LAYOUTS[after])
    both_nan = is_nan(found, LAYOUTS[after]) & is_nan(source, LAYOUTS[before])
    assert np.array_equal(found[~both_nan], expected[~both_nan])


@pytest.mark.parametrize("code", LAYOUTS)
def test_nan_is_what_torch_says(code: str) -> None:
    raw = BY_CODE[code].raw
    every = _samples(code) if raw.itemsize > 1 else np.arange(256, dtype=raw)
    packed = torch.frombuffer(bytearray(every.tobytes()), dtype=getattr(torch, BY_CODE[code].torch))
    assert np.array_equal(is_nan(every, LAYOUTS[code]), packed.float().isnan().numpy())


@given(st.integers(0, (1 << 32) - 1), st.integers(0, 31))
def test_without_a_cast_every_bit_counts(bits: int, bit: int) -> None:
    one = np.array([bits], np.uint32)
    assert not differs(one, one, BY_CODE["F32"], BY_CODE["F32"]).any()
    other = one ^ np.uint32(1 << bit)
    assert differs(other, one, BY_CODE["F32"], BY_CODE["F32"]).all()
