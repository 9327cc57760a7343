from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.apply import apply
from hfconvert.tensors.checkpoint import found
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf

Any_ = Callable[..., Any]


@given(st.data(), st.integers(1, 200))
def test_slices_lie_side_by_side_in_the_order_of_ranks(
    holding: Any_, values: Any_, step: Any_, run: Any_, data: st.DataObject, limit: int
) -> None:
    shape = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    dim = data.draw(st.integers(0, len(shape) - 1))
    parts = []
    for number in range(data.draw(st.integers(1, 11))):
        shape[dim] = data.draw(st.integers(0, 2))
        parts.append(np.full(shape, number, "<u4"))
    order = data.draw(st.permutations(range(len(parts))))
    before = holding({f"w@{rank}": parts[rank] for rank in order})
    result = run(step("join", {"w": dim}), before).checkpoint
    assert list(result) == ["w"]
    assert result["w"].sources == tuple(f"w@{rank}" for rank in range(len(parts)))
    assert np.array_equal(values(result, limit)["w"], np.concatenate(parts, dim))


def test_replicas_are_one_and_are_compared_when_read(
    holding: Any_, values: Any_, step: Any_, run: Any_
) -> None:
    model = step("join", {"*norm*": "replicated"})
    same = holding({"a.norm@0": np.arange(4, dtype="<u4"), "a.norm@1": np.arange(4, dtype="<u4")})
    assert values(run(model, same).checkpoint)["a.norm"].tolist() == [0, 1, 2, 3]
    other = holding({"a.norm@0": np.arange(4, dtype="<u4"), "a.norm@1": np.ones(4, dtype="<u4")})
    joined = run(model, other).checkpoint
    with pytest.raises(UserError, match=r"a\.norm: its replica of rank 1 differs") as caught:
        values(joined)
    assert caught.value.exit == Exit.SOURCE


def test_the_first_pattern_wins(holding: Any_, step: Any_, run: Any_) -> None:
    names = [f"{name}@{rank}" for name in ("a.col", "a.row", "a.norm") for rank in (0, 1)]
    before = holding({name: np.zeros((2, 3), "<u2") for name in names})
    result = run(step("join", {"*.col": 0, "*norm*": "replicated", "*": 1}), before).checkpoint
    shapes = {name: entry.tensor.spec.shape for name, entry in result.items()}
    assert shapes == {"a.col": (4, 3), "a.row": (2, 6), "a.norm": (2, 3)}
    assert result["a.row"].steps == ("join dim 1",)
    assert result["a.norm"].steps == ("join replicated",)


def test_a_slice_that_is_missing(holding: Any_, step: Any_, run: Any_) -> None:
    names = ["a@0", "a@1", "a@2", "b@0", "b@2"]
    before = holding({name: np.zeros((2, 3), "<u2") for name in names})
    with pytest.raises(UserError, match="`b`: no slice of rank 1, of 3 ranks") as caught:
        run(step("join", {"*": 0}), before)
    assert caught.value.exit == Exit.RECIPE


def test_a_tensor_that_only_some_ranks_hold_is_whole_there(
    holding: Any_, step: Any_, run: Any_
) -> None:
    names = ["a@0", "a@1", "layers.3.w@1"]
    before = holding({name: np.zeros(2, "<u2") for name in names})
    result = run(step("join", {"*": "replicated"}), before)
    assert list(result.checkpoint) == ["a", "layers.3.w"]
    assert "`layers.3.w`: on some of 2 ranks only" in result.findings[0].message


@pytest.mark.parametrize(
    ("to", "said"), [(0, "side by side along dimension 0"), ("replicated", "different kinds")]
)
def test_slices_that_do_not_fit(holding: Any_, step: Any_, run: Any_, to: Any, said: str) -> None:
    arrays = {"a@0": np.zeros((2, 3), "<u2"), "a@1": np.zeros((2, 4), "<u2")}
    with pytest.raises(UserError, match=said):
        run(step("join", {"a": to}), holding(arrays))


def test_the_problems_of_all_patterns_come_at_once(holding: Any_, step: Any_, run: Any_) -> None:
    shapes = {"a@0": (2, 3), "a@1": (2, 4), "b@0": (2,), "b@1": (3,)}
    before = holding({name: np.zeros(shape, "<u2") for name, shape in shapes.items()})
    with pytest.raises(UserError) as caught:
        run(step("join", {"a": 0, "b": "replicated"}), before)
    assert [one.subject for one in caught.value.problems] == ["join.a", "join.b"]


def test_packed_replicas_are_compared_and_packed_slices_refused(
    checkpoint: Any_, step: Any_, run: Any_
) -> None:
    source = checkpoint(["x"])["x"].tensor.source
    spec = TensorSpec(BY_CODE["F4"], (4, 6))
    before = found({f"w@{rank}": Leaf.packed(spec, source, 0) for rank in (0, 1)})
    joined = run(step("join", {"w": "replicated"}), before).checkpoint
    assert joined["w"].tensor.spec == spec
    with pytest.raises(UserError, match="F4 packs several elements"):
        run(step("join", {"w": 0}), before)


def test_a_joined_name_that_is_there_already(holding: Any_, step: Any_, run: Any_) -> None:
    before = holding({name: np.zeros(2, "<u2") for name in ("a@0", "a@1", "a")})
    with pytest.raises(UserError, match="would stand for several tensors"):
        run(step("join", {"a": 0}), before)


def test_what_is_still_a_slice_at_the_end_is_an_error(
    holding: Any_, step: Any_, where: Any_
) -> None:
    names = [f"l.{i}.w@{rank}" for i in range(3) for rank in range(2)] + ["norm@0", "norm@1"]
    before = holding({name: np.zeros(2, "<u2") for name in names})
    with pytest.raises(UserError) as caught:
        apply(before, [step("join", {"norm": "replicated"})], where)
    (problem,) = caught.value.problems
    assert problem.exit == Exit.RECIPE
    assert problem.what == "6 tensors are still slices of ranks: `l.{0..2}.w@{0..1}`"
    with pytest.raises(UserError, match="8 tensors are still slices"):
        apply(before, [], where)
