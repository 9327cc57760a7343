from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.apply import step_function
from hfconvert.recipe import steps as forms
from hfconvert.tensors.checkpoint import Checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:.*quantiz.*")

Plain = Callable[..., Checkpoint]
TYPES = [torch.qint8, torch.quint8, torch.qint32]


def dequantize(checkpoint: Checkpoint, *patterns: str) -> Checkpoint:
    step = forms.Dequantize(dequantize=patterns)
    return step_function(step, lambda *path: "r.yaml:3:5")(checkpoint).checkpoint


def per_tensor(dtype: torch.dtype, scale: float, zero: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(7, 33, generator=generator) * 100
    return torch.quantize_per_tensor(values, scale, zero, dtype)


def per_channel(dtype: torch.dtype, axis: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(7, 5, 9, generator=generator) * 10
    count = values.shape[axis]
    scales = torch.rand(count, dtype=torch.float64, generator=generator) + 0.01
    zeros = torch.randint(0, 20, (count,), generator=generator)
    return torch.quantize_per_channel(values, scales, zeros, axis, dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@settings(max_examples=10)
@given(
    scale=st.floats(1e-6, 1e3, allow_subnormal=False),
    zero=st.integers(0, 255),
    block=st.integers(4, 2000),
)
def test_one_scale_for_all(
    kit: Any, plain: Any, dtype: torch.dtype, scale: float, zero: int, block: int
) -> None:
    made = per_tensor(dtype, scale, min(zero, 127) if dtype is torch.qint8 else zero)
    result = dequantize(plain({"x": made}), "*")["x"].tensor
    assert str(result.spec) == "F32 [7, 33]"
    assert kit.values(result, block) == kit.raw(made.dequantize())
    assert kit.elsewhere(result) == kit.raw(made.dequantize())


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_scale_for_each_channel(kit: Any, plain: Any, dtype: torch.dtype, axis: int) -> None:
    made = per_channel(dtype, axis)
    result = dequantize(plain({"x": made}), "x")["x"].tensor
    for block in (4, 100, 1 << 20):
        assert kit.values(result, block) == kit.raw(made.dequantize())
    assert kit.elsewhere(result) == kit.raw(made.dequantize())


def test_differences_do_not_wrap_around(kit: Any, plain: Any) -> None:
    """Of the smallest integer and a zero point above 0, torch's kernel makes a large positive number."""
    made = torch.quantize_per_tensor(torch.tensor([-1e9, 1.0]), 1e-9, 5, torch.qint32)
    assert made.int_repr()[0] == -(2**31)
    result = dequantize(plain({"x": made}), "x")["x"].tensor
    found = torch.frombuffer(bytearray(kit.values(result)), dtype=torch.float32)
    assert found[0].item() == pytest.approx((-(2**31) - 5) * 1e-9, rel=1e-6)
    assert kit.elsewhere(result) == kit.values(result)


def test_zero_points_that_are_floats(kit: Any, plain: Any) -> None:
    values = torch.randn(6, 8) * 3
    made = torch.quantize_per_channel(values, torch.rand(6) + 0.1, torch.rand(6), 0, torch.quint8)
    assert made.qscheme() == torch.per_channel_affine_float_qparams
    result = dequantize(plain({"x": made}), "x")["x"].tensor
    assert kit.values(result, 40) == kit.raw(made.dequantize())
    assert kit.elsewhere(result) == kit.raw(made.dequantize())


def test_views_of_quantised_tensors(kit: Any, plain: Any) -> None:
    made = per_tensor(torch.qint8, 0.25, 3)[2:5, ::2].transpose(0, 1)
    result = dequantize(plain({"x": made}), "x")["x"].tensor
    assert kit.values(result, 8) == kit.raw(made.dequantize())


def test_it_reads_what_it_needs_and_nothing_before(kit: Any, plain: Any) -> None:
    checkpoint = plain({"x": per_channel(torch.qint8, 1)})
    source = next(checkpoint["x"].tensor.detail.stored.needs(((0, 1), (0, 5), (0, 9)))).source
    source.reads.clear()
    result = dequantize(checkpoint, "x")["x"].tensor
    assert source.reads == []
    assert kit.reads_what_it_needs(result, source)


def test_other_tensors_stay_as_they_are(plain: Any) -> None:
    before = plain({"x": per_tensor(torch.qint8, 0.25, 3), "w": torch.ones(3)})
    after = dequantize(before, "*")
    assert after["w"] is before["w"]
    assert after["x"].steps == ("dequantize",)
    assert after["x"].sources == ("x",)


def test_a_pattern_that_covers_no_quantised_tensor(plain: Any) -> None:
    with pytest.raises(UserError, match=r"none of `w` is quantised by torch") as caught:
        dequantize(plain({"w": torch.ones(3)}), "*")
    assert caught.value.exit is Exit.RECIPE
    assert caught.value.problems[0].subject == "r.yaml:3:5"


def test_several_elements_in_a_byte(plain: Any) -> None:
    values = torch.randn(6, 8)
    made = torch.quantize_per_channel(values, torch.rand(6) + 0.1, torch.rand(6), 0, torch.quint4x2)
    with pytest.raises(UserError, match="its elements are quint4x2, several in a byte") as caught:
        dequantize(plain({"x": made}), "*")
    assert caught.value.exit is Exit.SOURCE
    assert caught.value.problems[0].subject == "x"


def test_scales_that_do_not_fit(plain: Any, tmp_path: Path) -> None:
    checkpoint = plain({"x": per_channel(torch.qint8, 1)})
    tensor = checkpoint["x"].tensor
    object.__setattr__(tensor.detail, "axis", 0)
    with pytest.raises(UserError, match="its scales or zero points do not fit its channels"):
        dequantize(checkpoint, "*")
    object.__setattr__(tensor.detail, "axis", 7)
    with pytest.raises(UserError, match="do not fit its channels"):
        dequantize(checkpoint, "*")


def test_without_the_step_the_error_names_it(plain: Any) -> None:
    tensor = plain({"x": per_tensor(torch.qint8, 0.25, 3)})["x"].tensor
    with pytest.raises(UserError, match="the step dequantize"):
        tensor.fill(np.empty((7, 33), np.uint8), ((0, 7), (0, 33)))
