from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.errors import Exit, UserError
from hfconvert.tensors.checkpoint import found
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf

Any_ = Callable[..., Any]


@given(st.lists(st.integers(0, 5), min_size=2, max_size=4), st.integers(1, 200))
def test_the_last_two_dimensions_are_swapped(
    holding: Any_, values: Any_, step: Any_, run: Any_, shape: list[int], limit: int
) -> None:
    array = np.arange(np.prod(shape), dtype="<u2").reshape(shape)
    result = run(step("transpose", ("*.w",)), holding({"a.w": array, "b": array})).checkpoint
    got = values(result, limit)
    assert np.array_equal(got["a.w"], np.swapaxes(array, -1, -2))
    assert np.array_equal(got["b"], array)
    assert result["a.w"].steps == ("transpose",)


def test_what_is_no_matrix(holding: Any_, step: Any_, run: Any_) -> None:
    arrays = {"a.weight": np.zeros((2, 3), "<u2"), "a.bias": np.zeros(2, "<u2")}
    with pytest.raises(UserError) as caught:
        run(step("transpose", ("a.*",)), holding(arrays))
    (problem,) = caught.value.problems
    assert problem.what == "`a.bias`: BF16 [2] is no matrix"
    assert "narrow" in problem.do


def test_packed_elements_are_not_rearranged(checkpoint: Any_, step: Any_, run: Any_) -> None:
    spec = TensorSpec(BY_CODE["F4"], (4, 6))
    source = checkpoint(["x"])["x"].tensor.source
    with pytest.raises(UserError, match="F4 packs several elements into a byte") as caught:
        run(step("transpose", ("*",)), found({"w": Leaf.packed(spec, source, 0)}))
    assert caught.value.exit == Exit.RECIPE


def test_a_pattern_that_matches_nothing_beside_one_that_does(
    holding: Any_, step: Any_, run: Any_
) -> None:
    result = run(step("transpose", ("w", "v")), holding({"w": np.zeros((2, 3), "<u2")}))
    assert [(one.level, one.message) for one in result.findings] == [
        ("warning", "`v` matched 0 keys; other rules of the step did")
    ]
