from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.tensors.box import Box, blocks, full, offset_of, shape_of

EXTENTS = st.lists(st.integers(0, 6), max_size=5).map(tuple)
UNITS = st.sampled_from([1, 2, 4, 8, 16])


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(lo, hi) for lo, hi in box)


@given(EXTENTS, UNITS, st.integers(1, 400), st.integers(1, 4))
def test_blocks_cover_every_element_once(
    extent: tuple[int, ...], unit: int, limit: int, grain: int
) -> None:
    covered = np.zeros(extent, np.int64)
    for box in blocks(extent, unit, limit, grain):
        covered[_slices(box)] += 1
    assert (covered == 1).all()


@given(EXTENTS, UNITS, st.integers(1, 400), st.integers(1, 4))
def test_blocks_follow_each_other_in_row_major_order(
    extent: tuple[int, ...], unit: int, limit: int, grain: int
) -> None:
    numbers = np.arange(prod(extent)).reshape(extent)
    position = 0
    for box in blocks(extent, unit, limit, grain):
        part = numbers[_slices(box)].reshape(-1)
        assert offset_of(box, extent) == position == part[0]
        assert (np.diff(part) == 1).all(), "a block is one run of the output"
        position += part.size
    assert position == numbers.size


@given(EXTENTS, UNITS, st.integers(1, 400), st.integers(1, 4))
def test_blocks_respect_the_limit_as_far_as_the_grain_allows(
    extent: tuple[int, ...], unit: int, limit: int, grain: int
) -> None:
    rows = prod(extent[1:]) * unit
    for box in blocks(extent, unit, limit, grain):
        nbytes = prod(shape_of(box)) * unit
        assert nbytes <= max(limit, unit if grain == 1 else grain * rows)


@given(EXTENTS, UNITS, st.integers(1, 400), st.integers(2, 4))
def test_blocks_begin_at_multiples_of_the_grain(
    extent: tuple[int, ...], unit: int, limit: int, grain: int
) -> None:
    for box in blocks(extent, unit, limit, grain):
        for (lo, hi), size in list(zip(box, extent, strict=True))[:1]:
            assert lo % grain == 0
            assert hi % grain == 0 or hi == size


@pytest.mark.parametrize("extent", [(0,), (3, 0), (0, 3), (2, 0, 2)])
def test_nothing_has_no_blocks(extent: tuple[int, ...]) -> None:
    assert list(blocks(extent, 4, 100)) == []


def test_a_tensor_without_dimensions_is_one_block() -> None:
    assert list(blocks((), 8, 1)) == [()]
    assert offset_of((), ()) == 0
    assert shape_of(()) == ()
    assert full(()) == ()


def test_a_block_may_be_part_of_one_row() -> None:
    assert list(blocks((2, 10), 1, 4)) == [
        ((0, 1), (0, 4)),
        ((0, 1), (4, 8)),
        ((0, 1), (8, 10)),
        ((1, 2), (0, 4)),
        ((1, 2), (4, 8)),
        ((1, 2), (8, 10)),
    ]


def test_many_blocks_of_a_huge_tensor_are_made_one_at_a_time() -> None:
    extent = (1 << 40, 1 << 20)
    iterator = blocks(extent, 2, 4 << 20)
    assert next(iterator) == ((0, 2), (0, 1 << 20))
    assert next(iterator) == ((2, 4), (0, 1 << 20))
