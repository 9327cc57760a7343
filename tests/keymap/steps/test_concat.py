from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.errors import UserError

Any_ = Callable[..., Any]


def _concat(step: Any_, dim: int = 0, **options: Any) -> Any:
    default = {"from": ("m.{i}.gate", "m.{i}.up"), "into": "m.{i}.fc1", "dim": dim}
    return step("concat", {**default, **options})


def test_parts_are_gathered_by_the_new_name(holding: Any_, step: Any_, run: Any_) -> None:
    names = ("m.0.gate", "m.1.up", "x", "m.0.up", "m.1.gate")
    before = holding({name: np.zeros((2, 2), "<u2") for name in names})
    result = run(_concat(step), before).checkpoint
    assert sorted(result) == ["m.0.fc1", "m.1.fc1", "x"]
    assert result["m.1.fc1"].sources == ("m.1.gate", "m.1.up"), "in the order of the patterns"
    assert result["m.1.fc1"].steps == ("concat dim 0",)


@given(st.data(), st.integers(1, 200))
def test_values_are_those_of_numpy(
    holding: Any_, values: Any_, step: Any_, run: Any_, data: st.DataObject, limit: int
) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    dim = data.draw(st.integers(0, len(shape) - 1))
    parts = []
    for number in range(2):
        shape[dim] = data.draw(st.integers(0, 4))
        size = int(np.prod(shape))
        parts.append((np.arange(size, dtype="<u4") + 1000 * number).reshape(shape))
    before = holding({"m.3.up": parts[1], "m.3.gate": parts[0]})
    found = values(run(_concat(step, dim), before).checkpoint, limit)
    assert np.array_equal(found["m.3.fc1"], np.concatenate(parts, dim))


def test_a_part_that_is_missing_is_named_and_folded(holding: Any_, step: Any_, run: Any_) -> None:
    names = [f"m.{i}.gate" for i in range(4)] + ["m.0.up"]
    with pytest.raises(UserError, match=r"`m\.\{1\.\.3\}\.fc1`: missing `m\.\{i\}\.up`"):
        run(_concat(step), holding({name: np.zeros((2, 2), "<u2") for name in names}))


def test_two_tensors_for_one_place(holding: Any_, step: Any_, run: Any_) -> None:
    names = ("m.0.gate", "m.1.gate", "m.0.up")
    before = holding({name: np.zeros((2, 2), "<u2") for name in names})
    with pytest.raises(UserError, match=r"several tensors at one place: `m\.\{0\.\.1\}\.gate`"):
        run(_concat(step, into="fc1"), before)


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (np.zeros((2, 2), "<u2"), np.zeros((2, 3), "<u2"), r"BF16 \[2, 2\], BF16 \[2, 3\]"),
        (np.zeros((2, 2), "<u2"), np.zeros((2, 2), "<u4"), r"BF16 \[2, 2\], F32 \[2, 2\]"),
    ],
)
def test_what_cannot_lie_side_by_side(
    holding: Any_, step: Any_, run: Any_, left: Any, right: Any, said: str
) -> None:
    with pytest.raises(UserError, match=f"cannot lie side by side along dimension 0: {said}"):
        run(_concat(step), holding({"m.0.gate": left, "m.0.up": right}))
