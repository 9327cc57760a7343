from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hfconvert.tensors.assemble import Assemble
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.simplify import select, side_by_side, stacked, window
from hfconvert.tensors.window import Select, Window

Make = Callable[..., Any]


def _leaf(recorder: Make, *shape: int) -> Leaf:
    return Leaf.packed(TensorSpec(BY_CODE["U8"], shape), recorder(bytes(1000)), 0)


@pytest.mark.parametrize("dim", [0, 1])
def test_parts_put_together_again_are_the_whole(recorder: Make, dim: int) -> None:
    leaf = _leaf(recorder, 6, 4)
    size = leaf.extent[dim]
    thirds = [window(leaf, dim, 0, 1), window(leaf, dim, 1, 3), window(leaf, dim, 3, size)]
    assert side_by_side(thirds, dim) is leaf
    assert stacked([select(leaf, dim, index) for index in range(size)], dim) is leaf


def test_a_stack_taken_apart_is_what_it_was_made_of(recorder: Make) -> None:
    leaves = [_leaf(recorder, 3, 2) for _ in range(4)]
    tensor = stacked(leaves, 1)
    assert [select(tensor, 1, index) for index in range(4)] == leaves
    joined = side_by_side(leaves, 0)
    assert [window(joined, 0, 3 * i, 3 * i + 3) for i in range(4)] == leaves


def test_a_part_of_a_part_is_one_part(recorder: Make) -> None:
    leaf = _leaf(recorder, 9, 4)
    assert window(window(leaf, 0, 2, 8), 0, 1, 3) == Window(leaf, 0, 3, 5)
    assert select(window(leaf, 0, 2, 8), 0, 1) == Select(leaf, 0, 3)
    assert window(leaf, 0, 0, 9) is leaf


def test_a_part_that_spans_several_touches_only_those(recorder: Make) -> None:
    one, two, three = leaves = [_leaf(recorder, 3, 2) for _ in range(3)]
    found = window(side_by_side(leaves, 0), 0, 1, 5)
    assert found == Assemble((Window(one, 0, 1, 3), Window(two, 0, 0, 2)), 0)
    assert three is leaves[2]


def test_the_wrong_order_stays_as_it_is(recorder: Make) -> None:
    leaf = _leaf(recorder, 4, 2)
    halves = [window(leaf, 0, 2, 4), window(leaf, 0, 0, 2)]
    assert side_by_side(halves, 0) == Assemble((Window(leaf, 0, 2, 4), Window(leaf, 0, 0, 2)), 0)
