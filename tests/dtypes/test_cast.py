from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hfconvert.dtypes.cast import Cast
from hfconvert.tensors.box import blocks, full, shape_of
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.tally import Loss, Tally

Make = Callable[..., Leaf]


def values(shape: tuple[int, ...], seed: int = 3) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 1e4


def node(leaf: Make, tensor: torch.Tensor, code: str = "F16") -> Cast:
    inner = leaf("F32", tensor.numpy().view(np.uint32))
    return Cast(inner, BY_CODE[code], "w", Tally())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 4000), st.sampled_from([(40, 30), (7, 5, 11), (), (1,), (0, 3), (1200,)]))
def test_any_blocks_give_what_torch_gives(leaf: Any, limit: int, shape: tuple[int, ...]) -> None:
    tensor = values(shape)
    cast = node(leaf, tensor)
    out = np.zeros(shape, np.uint16)
    for box in blocks(cast.extent, 2, limit):
        part = out[tuple(slice(lo, hi) for lo, hi in box)] if box else out
        cast.fill(part, box)
    expected = tensor.to(torch.float16)
    assert out.tobytes() == expected.numpy().tobytes()
    lost = int((~expected.isfinite()).sum())
    if tensor.numel():
        small = int(((expected == 0) & (tensor != 0)).sum())
        assert cast.tally.take([cast.name]) == (
            {"w": Loss(lost, small, tensor.numel())} if lost + small else {}
        )


def test_strided_output(leaf: Make) -> None:
    tensor = values((6, 5))
    cast = node(leaf, tensor, "BF16")
    wide = np.zeros((6, 10), np.uint16)
    cast.fill(wide[:, ::2], full((6, 5)))
    expected = tensor.to(torch.bfloat16).view(torch.uint16).numpy()
    assert np.array_equal(wide[:, ::2], expected)
    assert not wide[:, 1::2].any()


def test_what_it_says_of_itself(leaf: Make) -> None:
    inner = leaf("F64", np.zeros((9, 4), np.uint64))
    cast = Cast(inner, BY_CODE["BF16"], "w", Tally())
    assert str(cast.spec) == "BF16 [9, 4]"
    assert (cast.extent, cast.grain) == ((9, 4), 1)
    box = ((2, 5), (0, 4))
    assert shape_of(box) == (3, 4)
    (need,) = cast.needs(box)
    assert (need.start, need.stop) == (2 * 32, 5 * 32)
    (place,) = cast.where((np.arange(9), np.arange(4)))
    assert place.dtype == BY_CODE["F64"]


def test_losses_are_counted_by_name_and_taken_once() -> None:
    tally = Tally()
    tally.add("a", Loss(1, 0, 10))
    tally.add("a", Loss(0, 2, 10))
    tally.add("b", Loss(0, 0, 5))
    assert tally.take(["a"]) == {"a": Loss(1, 2, 20)}
    assert tally.take(["a"]) == {}
