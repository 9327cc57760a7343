from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.tensors.assemble import Assemble, Same, stack
from hfconvert.tensors.box import full
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import SPAN, Leaf

Make = Callable[..., Any]
F32 = BY_CODE["F32"]


def _leaf(recorder: Make, array: Any) -> Leaf:
    return Leaf.packed(TensorSpec(F32, array.shape), recorder(array.tobytes()), 0)


def _rows(count: int, width: int = 3, first: int = 0) -> Any:
    return np.arange(first, first + count * width, dtype="<f4").reshape(count, width)


def test_equal_replicas_are_one_tensor(recorder: Make) -> None:
    tensor = Same((_leaf(recorder, _rows(4)), _leaf(recorder, _rows(4))), "norm.weight")
    out = np.zeros((2, 3), "<u4")
    tensor.fill(out, ((1, 3), (0, 3)))
    assert out.tobytes() == _rows(4)[1:3].tobytes()
    assert tensor.scratch > 0, "the block that is compared counts"


def test_a_replica_that_differs_is_an_error_of_the_source(recorder: Make) -> None:
    other = _rows(4)
    other[2, 1] += 1
    tensor = Same((_leaf(recorder, _rows(4)), _leaf(recorder, other)), "norm.weight")
    out = np.zeros((2, 3), "<u4")
    tensor.fill(out, ((0, 2), (0, 3)))  # equal that far
    with pytest.raises(UserError) as caught:
        tensor.fill(out, ((2, 4), (0, 3)))
    assert caught.value.exit == Exit.SOURCE
    (problem,) = caught.value.problems
    assert problem.subject == "norm.weight"
    assert "rank 1 differs from that of rank 0" in problem.what
    assert "`join`" in problem.do


def test_a_part_that_the_box_does_not_touch_is_not_read(recorder: Make) -> None:
    one, two = _leaf(recorder, _rows(2)), _leaf(recorder, _rows(3, first=6))
    both = Assemble((one, two), 0)
    out = np.zeros((2, 3), "<u4")
    both.fill(out, ((2, 4), (0, 3)))
    assert out.tobytes() == _rows(5)[2:4].tobytes()
    assert one.source.reads == []  # type: ignore[attr-defined]  # a recorder


def test_stacked_parts_lie_along_a_new_dimension(recorder: Make) -> None:
    tensor = stack([_leaf(recorder, _rows(2, first=6 * i)) for i in range(3)], 1)
    assert tensor.spec == TensorSpec(F32, (2, 3, 3))
    out = np.zeros(tensor.extent, "<u4")
    tensor.fill(out, full(tensor.extent))
    expected = np.stack([_rows(2, first=6 * i) for i in range(3)], 1)
    assert out.tobytes() == expected.tobytes()


def test_columns_side_by_side_count_the_buffer_that_they_are_read_through(recorder: Make) -> None:
    parts = (_leaf(recorder, _rows(2)), _leaf(recorder, _rows(2)))
    assert Assemble(parts, 0).scratch == 0
    assert Assemble(parts, 1).scratch == SPAN
