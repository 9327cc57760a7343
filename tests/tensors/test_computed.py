from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.tensors.box import Box, Shape
from hfconvert.tensors.computed import ComputedSource, place_in, run_boxes
from hfconvert.tensors.dtype import BY_CODE, DType
from hfconvert.tensors.lazy import RawArray

shapes = st.lists(st.integers(1, 5), max_size=4).map(tuple)


class Counting:
    """The elements 0, 1, 2, ... of a shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    @property
    def dtype(self) -> DType:
        return BY_CODE["U32"]

    def values(self, box: Box) -> RawArray:
        numbers = np.arange(prod(self.shape), dtype=np.uint32).reshape(self.shape)
        return numbers[tuple(slice(lo, hi) for lo, hi in box)]


@given(shapes, st.data())
def test_boxes_of_a_run_follow_each_other(shape: tuple[int, ...], data: st.DataObject) -> None:
    total = prod(shape)
    low = data.draw(st.integers(0, total))
    high = data.draw(st.integers(low, total))
    numbers = Counting(shape)
    found = [number for box in run_boxes(shape, low, high) for number in numbers.values(box).flat]
    assert found == list(range(low, high))


def test_a_large_run_is_a_few_boxes() -> None:
    assert len(list(run_boxes((1000, 50, 40), 41, 1_999_999))) <= 5


@given(shapes, st.data())
def test_any_range_of_elements_is_computed(shape: tuple[int, ...], data: st.DataObject) -> None:
    source = ComputedSource(Counting(shape), "x")
    assert source.size == 4 * prod(shape)
    low = data.draw(st.integers(0, prod(shape)))
    high = data.draw(st.integers(low, prod(shape)))
    buffer = bytearray(4 * (high - low))
    source.readinto(memoryview(buffer), 4 * low)
    assert np.frombuffer(buffer, np.uint32).tolist() == list(range(low, high))


def test_places_are_those_of_packed_data() -> None:
    mesh = (np.array([2, 0]), np.array([1, 3]))
    place = place_in(Counting((3, 4)), "x", mesh)
    assert np.add.outer(*place.steps).tolist() == [[9, 11], [1, 3]]
    assert (place.start, place.itemsize, place.source.name) == (0, 4, "x")
