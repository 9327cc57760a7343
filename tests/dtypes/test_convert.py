from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.dtypes.convert import FLOATS, LARGEST, convert
from hfconvert.recipe.casts import cast_targets
from hfconvert.tensors.dtype import BY_CODE, BY_TORCH
from hfconvert.tensors.tally import Loss

Bits = np.ndarray[Any, Any]
PAIRS = list(itertools.product(FLOATS, FLOATS))
TINY = [pair for pair in PAIRS if BY_CODE[pair[0]].bits <= 16]
WIDE = [pair for pair in PAIRS if BY_CODE[pair[0]].bits > 16]
LIMIT = 1 << 63


def as_torch(raw: Bits, code: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(raw.tobytes()), dtype=getattr(torch, BY_CODE[code].torch))


def by_torch(raw: Bits, before: str, after: str) -> Bits:
    done = as_torch(raw, before).to(getattr(torch, BY_CODE[after].torch))
    return np.frombuffer(done.view(torch.uint8).numpy().tobytes(), BY_CODE[after].raw)


def nan(raw: Bits, code: str) -> Bits:
    found: Bits = torch.isnan(as_torch(raw, code).double()).numpy()
    return found


def finite(raw: Bits, code: str) -> Bits:
    found: Bits = torch.isfinite(as_torch(raw, code).double()).numpy()
    return found


def zero(raw: Bits, code: str) -> Bits:
    found: Bits = (as_torch(raw, code).double() == 0).numpy()
    return found


def ours(raw: Bits, before: str, after: str) -> tuple[Bits, Loss]:
    return convert(raw, BY_CODE[before], BY_CODE[after])


def check(raw: Bits, before: str, after: str) -> None:
    """Equal to torch bit for bit; NaN is NaN; where torch saturates, ours is not finite and has overflowed.

    An infinity stays what is not finite: F8_E4M3 has NaN alone for it.
    """
    result, loss = ours(raw, before, after)
    expected = by_torch(raw, before, after)
    lost = finite(raw, before) & ~finite(result, after)
    same = (result == expected) | (~finite(raw, before) & ~finite(result, after)) | lost
    assert (nan(result, after) >= nan(raw, before)).all()
    wrong = raw[~same]
    assert not wrong.size, [hex(bits) for bits in wrong[:5]]
    gone = ~zero(raw, before) & zero(result, after) & ~nan(raw, before)
    assert loss == Loss(int(lost.sum()), int(gone.sum()), raw.size)


def all_values(code: str) -> Bits:
    dtype = BY_CODE[code]
    return np.arange(1 << dtype.bits, dtype=dtype.raw)


@pytest.mark.parametrize(("before", "after"), TINY)
def test_every_value_of_narrow_types_is_cast_as_torch_does(before: str, after: str) -> None:
    check(all_values(before), before, after)


@pytest.mark.parametrize(("before", "after"), WIDE)
@given(data=st.data())
def test_values_of_wide_types_are_cast_as_torch_does(
    before: str, after: str, data: st.DataObject
) -> None:
    raw = BY_CODE[before].raw
    top = (1 << BY_CODE[before].bits) - 1
    anything = st.integers(0, top)
    near = st.sampled_from(sorted(LARGEST)).map(lambda code: edge(code, before))
    close = st.tuples(near, st.integers(-3, 3)).map(lambda pair: (pair[0] + pair[1]) & top)
    bits = data.draw(st.lists(anything | close, min_size=1, max_size=64))
    check(np.array(bits, dtype=raw), before, after)


def edge(code: str, before: str) -> int:
    """The bits, in a wide type, of the largest finite value of any type."""
    largest = as_torch(np.array([LARGEST[code]], BY_CODE[code].raw), code)
    wide = largest.to(getattr(torch, BY_CODE[before].torch))
    return int(np.frombuffer(wide.numpy().tobytes(), BY_CODE[before].raw)[0])


@pytest.mark.parametrize("code", FLOATS)
def test_the_same_type_is_left_bit_for_bit(code: str) -> None:
    raw = all_values(code) if BY_CODE[code].bits <= 16 else np.arange(99, dtype=BY_CODE[code].raw)
    result, _ = ours(raw, code, code)
    kept = (result == raw) | nan(raw, code)
    assert kept.all()


@pytest.mark.parametrize("code", FLOATS)
def test_the_largest_value_is_finite_and_the_next_is_not(code: str) -> None:
    raw = BY_CODE[code].raw
    largest = np.array([LARGEST[code]], raw)
    assert finite(largest, code).all()
    assert not finite(largest + raw.type(1), code).any()


@pytest.mark.parametrize(
    ("values", "target", "overflow", "underflow"),
    [
        ([1e6, 1e-8, 70000.0], "F16", 2, 1),
        ([65504.0, 65519.9, -65504.0], "F16", 0, 0),
        ([65520.0, -65520.0], "F16", 2, 0),
        ([float("inf"), float("-inf"), float("nan"), 0.0, -0.0], "F16", 0, 0),
        ([3.39e38, 1e-45], "BF16", 0, 1),
        ([3.4028235e38], "BF16", 1, 0),
        ([448.0, 464.0, 465.0, 9e-4], "F8_E4M3", 1, 1),
    ],
)
def test_what_is_lost_is_counted(
    values: list[float], target: str, overflow: int, underflow: int
) -> None:
    raw = np.array(values, np.float32).view(np.uint32)
    assert ours(raw, "F32", target)[1] == Loss(overflow, underflow, len(values))


def test_the_counts_that_the_case_names() -> None:
    raw = np.array([0x4974, 0x322C, 0x4789], np.uint16)  # about 1e6, 1e-8 and 70000 in bf16
    result, loss = ours(raw, "BF16", "F16")
    assert result.tolist() == [0x7C00, 0, 0x7C00]
    assert loss == Loss(2, 1, 3)


def test_from_f64_through_f32_as_torch_does() -> None:
    value = np.array([1 + 2**-8 + 2**-40])  # above a tie of bf16 in f64, exactly on it in f32
    raw = value.view(np.uint64)
    assert ours(raw, "F64", "BF16")[0].tolist() == by_torch(raw, "F64", "BF16").tolist() == [0x3F80]


def test_nothing_is_cast_where_there_is_nothing() -> None:
    result, loss = ours(np.empty(0, np.uint32), "F32", "BF16")
    assert (result.size, loss) == (0, Loss(0, 0, 0))


def test_every_target_of_a_recipe_can_be_made() -> None:
    targets = [name for name in cast_targets() if name != "keep"]
    assert {BY_TORCH[name].code for name in targets} == set(FLOATS)
