from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf, row_major
from hfconvert.tensors.overlap import overlapping

Make = Callable[..., Any]
VIEWS = st.tuples(
    st.sampled_from(["U8", "BF16", "F32"]),
    st.integers(0, 30),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=3),
)


def _leaf(source: Any, code: str, start: int, axes: list[tuple[int, int]]) -> Leaf:
    shape, strides = tuple(size for size, _ in axes), tuple(stride for _, stride in axes)
    return Leaf(TensorSpec(BY_CODE[code], shape), source, start, strides, shape)


def _bytes(leaf: Leaf) -> set[int]:
    numbers = np.zeros((), np.int64)
    for size, stride in zip(leaf.extent, leaf.strides, strict=True):
        numbers = np.add.outer(numbers, np.arange(size) * stride)
    unit = leaf.spec.dtype.itemsize
    return {
        leaf.start + int(number) * unit + byte for number in numbers.flat for byte in range(unit)
    }


def _same_view(one: Leaf, other: Leaf) -> bool:
    def axes(leaf: Leaf) -> list[tuple[int, int]]:
        return [axis for axis in zip(leaf.extent, leaf.strides, strict=True) if axis[0] > 1]

    return (one.start, one.spec.dtype.itemsize, axes(one)) == (
        other.start,
        other.spec.dtype.itemsize,
        axes(other),
    )


@given(st.lists(VIEWS, max_size=6))
def test_exactly_the_views_with_a_common_byte_are_pairs(recorder: Make, views: Any) -> None:
    source = recorder(b"")
    leaves = {f"w{i}": _leaf(source, *view) for i, view in enumerate(views)}
    names = list(leaves)
    expected = {
        frozenset((one, other))
        for i, one in enumerate(names)
        for other in names[i + 1 :]
        if _bytes(leaves[one]) & _bytes(leaves[other])
        and not _same_view(leaves[one], leaves[other])
    }
    found = list(overlapping(leaves))
    assert {frozenset(pair) for pair in found} == expected
    assert len(found) == len(expected), "each pair once"


def test_columns_of_one_matrix_share_nothing(recorder: Make) -> None:
    source = recorder(b"")
    left = _leaf(source, "F32", 0, [(4, 10), (5, 1)])
    right = _leaf(source, "F32", 20, [(4, 10), (5, 1)])
    wide = _leaf(source, "F32", 16, [(4, 10), (5, 1)])
    assert list(overlapping({"left": left, "right": right})) == []
    assert set(overlapping({"left": left, "right": right, "wide": wide})) == {
        ("left", "wide"),
        ("wide", "right"),
    }


def test_sources_have_nothing_in_common(recorder: Make) -> None:
    one = _leaf(recorder(b"", "one"), "F32", 0, [(4, 1)])
    other = _leaf(recorder(b"", "other"), "F32", 0, [(3, 1)])
    assert list(overlapping({"one": one, "other": other})) == []


@pytest.mark.parametrize("start", [0, 1 << 45])
def test_a_whole_model_in_one_buffer_is_quickly_told_apart(recorder: Make, start: int) -> None:
    source = recorder(b"")
    shape = (1 << 14, 1 << 12)
    leaves = {
        f"w{i}": Leaf(
            TensorSpec(BY_CODE["F32"], shape), source, start + (i << 28), row_major(shape), shape
        )
        for i in range(2000)
    }
    assert list(overlapping(leaves)) == []
    leaves["x"] = leaves["w7"].__class__(
        TensorSpec(BY_CODE["F32"], (3,)), source, start + (8 << 28) - 4, (1,), (3,)
    )
    assert list(overlapping(leaves)) == [("w7", "x"), ("x", "w8")]
