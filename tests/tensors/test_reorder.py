from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hfconvert.tensors.box import full
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import COLUMNS, RUN, Leaf
from hfconvert.tensors.reorder import Permute, Take

Make = Callable[..., Any]
BF16 = BY_CODE["BF16"]


def _leaf(recorder: Make, rows: int, width: int) -> Leaf:
    return Leaf.packed(TensorSpec(BF16, (rows, width)), recorder(bytes(rows * width * 2)), 0)


def test_a_transpose_asks_for_many_rows_at_once(recorder: Make) -> None:
    """A row of the result is a column of the source: with one at a time all of it would be read for each."""
    big = Leaf.packed(TensorSpec(BF16, (8192, 28672)), recorder(b""), 0)
    tensor = Permute(big, (1, 0))
    assert tensor.extent == (28672, 8192)
    assert tensor.grain * 8192 * 2 == COLUMNS
    small = Permute(_leaf(recorder, 4, 6), (1, 0))
    assert small.grain == 6
    wide = Permute(Leaf.packed(TensorSpec(BF16, (2, 10**6)), recorder(b""), 0), (1, 0))
    assert wide.grain * 2 == RUN
    assert tensor.scratch >= 2 * COLUMNS, "its blocks are larger than usual"


def test_the_first_dimension_in_its_place_needs_no_grain(recorder: Make) -> None:
    leaf = Leaf.packed(TensorSpec(BF16, (5, 4, 3)), recorder(bytes(120)), 0)
    assert Permute(leaf, (0, 2, 1)).grain == 1
    assert Permute(Leaf.packed(TensorSpec(BF16, ()), recorder(bytes(2)), 0), ()).grain == 1


def test_rows_that_follow_each_other_are_one_read(recorder: Make) -> None:
    leaf = _leaf(recorder, 8, 4)
    tensor = Take(leaf, 0, np.array([4, 5, 6, 1, 2, 7]))
    out = np.zeros((6, 4), "<u2")
    tensor.fill(out, full(tensor.extent))
    assert leaf.source.reads == [(32, 56), (8, 24), (56, 64)]  # type: ignore[attr-defined]  # a recorder


def test_rows_in_any_order_need_the_ranges_that_they_make_together(recorder: Make) -> None:
    leaf = _leaf(recorder, 8, 4)
    tensor = Take(leaf, 0, np.array([7, 6, 5, 4, 1, 0]))
    needed = [(part.start, part.stop) for part in tensor.needs(full(tensor.extent))]
    assert needed == [(0, 16), (32, 64)]
    assert [part.box for part in tensor.inputs(full(tensor.extent))] == [
        ((0, 2), (0, 4)),
        ((4, 8), (0, 4)),
    ]
