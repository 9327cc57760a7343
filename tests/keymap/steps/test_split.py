from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.errors import Exit, UserError

Any_ = Callable[..., Any]


def _split(step: Any_, into: tuple[str, ...] = ("m.{i}.gate", "m.{i}.up"), dim: int = 0) -> Any:
    return step("split", {"from": "m.{i}.fc1", "into": into, "dim": dim})


def test_parts_stand_where_the_whole_stood(holding: Any_, step: Any_, run: Any_) -> None:
    arrays = {name: np.zeros((4, 2), "<u2") for name in ("a", "m.0.fc1", "b", "m.1.fc1")}
    result = run(_split(step), holding(arrays)).checkpoint
    assert list(result) == ["a", "m.0.gate", "m.0.up", "b", "m.1.gate", "m.1.up"]
    assert result["m.1.up"].sources == ("m.1.fc1",)
    assert result["m.1.up"].steps == ("split dim 0",)
    assert result["a"].steps == ()


@given(st.data(), st.integers(1, 200))
def test_values_are_those_of_numpy(
    holding: Any_, values: Any_, step: Any_, run: Any_, data: st.DataObject, limit: int
) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    dim = data.draw(st.integers(0, len(shape) - 1))
    count = data.draw(st.integers(2, 4))
    shape[dim] *= count
    array = np.arange(np.prod(shape), dtype="<u4").reshape(shape)
    into = tuple(f"m.{{i}}.part{number}" for number in range(count))
    found = values(run(_split(step, into, dim), holding({"m.7.fc1": array})).checkpoint, limit)
    for number, part in enumerate(np.split(array, count, dim)):
        assert np.array_equal(found[f"m.7.part{number}"], part)


def test_what_does_not_divide_is_said_once_for_all_layers(
    holding: Any_, step: Any_, run: Any_
) -> None:
    arrays = {f"m.{i}.fc1": np.zeros((5, 2), "<u4") for i in range(32)}
    with pytest.raises(UserError) as caught:
        run(_split(step), holding(arrays))
    (problem,) = caught.value.problems
    assert problem.exit == Exit.RECIPE
    assert problem.what == (
        "`m.{0..31}.fc1`: F32 [5, 2] does not divide into 2 equal parts along dimension 0"
    )


def test_a_dimension_that_is_not_there(holding: Any_, step: Any_, run: Any_) -> None:
    with pytest.raises(UserError, match=r"F32 \[4\] has no dimension 1"):
        run(_split(step, dim=1), holding({"m.0.fc1": np.zeros(4, "<u4")}))


@pytest.mark.parametrize("into", [("x", "x"), ("x", "b"), ("m.{i}.gate", "m.{i}.gate")])
def test_names_that_collide(holding: Any_, step: Any_, run: Any_, into: tuple[str, ...]) -> None:
    arrays = {"m.0.fc1": np.zeros((4, 2), "<u4"), "b": np.zeros(1, "<u4")}
    with pytest.raises(UserError, match="would stand for several tensors each"):
        run(_split(step, into), holding(arrays))


def test_a_part_may_have_the_name_of_the_whole(holding: Any_, step: Any_, run: Any_) -> None:
    model = step("split", {"from": "w", "into": ("w", "v"), "dim": 0})
    result = run(model, holding({"w": np.zeros((4, 2), "<u4")})).checkpoint
    assert list(result) == ["w", "v"]


def test_nothing_matches(holding: Any_, step: Any_, run: Any_) -> None:
    with pytest.raises(UserError, match="the step matched 0 keys"):
        run(_split(step), holding({"a": np.zeros((4, 2), "<u4")}))


def test_a_capture_that_the_left_side_lacks(step: Any_, run: Any_) -> None:
    with pytest.raises(UserError, match=r"split\.into\.1: `b\.\{k\}` uses `\{k\}`"):
        run(_split(step, ("a.{i}", "b.{k}")), None)
