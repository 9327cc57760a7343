from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.errors import UserError

Any_ = Callable[..., Any]


def _stack(step: Any_, dim: int = 0, **options: Any) -> Any:
    return step("stack", {"from": "l.{i}.e.{n}.w", "into": "l.{i}.e.w", "dim": dim, **options})


def _unstack(step: Any_, dim: int = 0, **options: Any) -> Any:
    return step("unstack", {"from": "l.{i}.e.w", "into": "l.{i}.e.{n}.w", "dim": dim, **options})


def _experts(numbers: list[Any]) -> dict[str, Any]:
    return {f"l.0.e.{n}.w": np.zeros((2, 2), "<u2") for n in numbers}


def test_numbers_decide_the_order_not_the_source(holding: Any_, step: Any_, run: Any_) -> None:
    result = run(_stack(step), holding(_experts([10, 2, *range(2), *range(3, 10)]))).checkpoint
    assert result["l.0.e.w"].sources == tuple(f"l.0.e.{n}.w" for n in range(11))
    assert result["l.0.e.w"].tensor.spec.shape == (11, 2, 2)


@given(st.data(), st.integers(1, 200))
def test_values_are_those_of_numpy_both_ways(
    holding: Any_, values: Any_, step: Any_, run: Any_, data: st.DataObject, limit: int
) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), max_size=3))
    dim = data.draw(st.integers(0, len(shape)))
    count = data.draw(st.integers(1, 4))
    size = int(np.prod(shape))
    parts = [np.arange(n * size, (n + 1) * size, dtype="<u4").reshape(shape) for n in range(count)]
    before = holding({f"l.0.e.{n}.w": part for n, part in enumerate(parts)})
    after = run(_stack(step, dim), before).checkpoint
    assert np.array_equal(values(after, limit)["l.0.e.w"], np.stack(parts, dim))
    back = values(run(_unstack(step, dim), after).checkpoint, limit)
    assert list(back) == list(before)
    assert all(np.array_equal(back[f"l.0.e.{n}.w"], part) for n, part in enumerate(parts))


def test_a_gap_in_the_numbers(holding: Any_, step: Any_, run: Any_) -> None:
    with pytest.raises(UserError, match=r"`l\.0\.e\.w`: missing 1, 3"):
        run(_stack(step), holding(_experts([0, 2, 4])))


def test_a_number_far_off_is_a_gap_and_costs_nothing(holding: Any_, step: Any_, run: Any_) -> None:
    with pytest.raises(UserError, match="missing 1, 2, 3"):
        run(_stack(step), holding(_experts([0, 99999999])))


def test_what_is_no_number_does_not_match(holding: Any_, step: Any_, run: Any_) -> None:
    result = run(_stack(step), holding(_experts([0, "shared"]))).checkpoint
    assert sorted(result) == ["l.0.e.shared.w", "l.0.e.w"]


def test_one_number_written_twice(holding: Any_, step: Any_, run: Any_) -> None:
    with pytest.raises(UserError, match="several tensors at one place"):
        run(_stack(step), holding(_experts(["0", "00"])))


def test_shapes_that_differ(holding: Any_, step: Any_, run: Any_) -> None:
    arrays = {"l.0.e.0.w": np.zeros((2, 2), "<u2"), "l.0.e.1.w": np.zeros((3, 2), "<u2")}
    with pytest.raises(UserError, match=r"different kinds: BF16 \[2, 2\], BF16 \[3, 2\]"):
        run(_stack(step), holding(arrays))


@pytest.mark.parametrize("dim", [3, 9])
def test_a_place_that_a_new_dimension_cannot_have(
    holding: Any_, step: Any_, run: Any_, dim: int
) -> None:
    with pytest.raises(UserError, match=f"cannot get a new dimension {dim}"):
        run(_stack(step, dim), holding(_experts([0, 1])))


@pytest.mark.parametrize(
    ("from_", "into", "said"),
    [("a.{n}.{m}", "a", "`{n}`, `{m}`"), ("a.{n}", "a.{n}", "it has none")],
)
def test_exactly_one_number(step: Any_, run: Any_, from_: str, into: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        run(step("stack", {"from": from_, "into": into}), None)
    assert said in caught.value.problems[0].what


def test_unstack_gives_every_index_a_name(holding: Any_, step: Any_, run: Any_) -> None:
    before = holding({"a": np.zeros(1, "<u2"), "l.3.e.w": np.zeros((2, 3), "<u2")})
    result = run(_unstack(step, 1), before).checkpoint
    assert list(result) == ["a", "l.3.e.0.w", "l.3.e.1.w", "l.3.e.2.w"]
    assert result["l.3.e.2.w"].sources == ("l.3.e.w",)
    assert result["l.3.e.2.w"].tensor.spec.shape == (2,)
    assert result["l.3.e.2.w"].steps == ("unstack dim 1",)


def test_unstack_of_nothing(holding: Any_, step: Any_, run: Any_) -> None:
    with pytest.raises(UserError, match=r"BF16 \[2\] has no dimension 1"):
        run(_unstack(step, 1), holding({"l.0.e.w": np.zeros(2, "<u2")}))
    with pytest.raises(UserError, match="has 0 indices along dimension 0"):
        run(_unstack(step), holding({"l.0.e.w": np.zeros((0, 2), "<u2")}))
    with pytest.raises(UserError, match="the step matched 0 keys"):
        run(_unstack(step), holding({"x": np.zeros(2, "<u2")}))
