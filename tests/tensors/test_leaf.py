from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import islice
from math import prod
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from hfconvert.tensors import leaf as module
from hfconvert.tensors.box import Box, blocks, full, shape_of
from hfconvert.tensors.dtype import BY_CODE, DType
from hfconvert.tensors.lazy import LazyTensor, RawArray, TensorSpec
from hfconvert.tensors.leaf import Leaf, row_major

Make = Callable[..., Any]  # of a recording source
DTYPES = st.sampled_from([BY_CODE[code] for code in ("U8", "BF16", "F32", "I64", "complex128")])
SHAPES = st.lists(st.integers(0, 5), max_size=5).map(tuple)


@st.composite
def strided(draw: st.DrawFn, shapes: st.SearchStrategy[tuple[int, ...]] = SHAPES) -> Any:
    """Shape, strides and first byte of a view: packed, transposed, expanded, sliced or overlapping."""
    shape = draw(shapes)
    kind = draw(st.sampled_from(["packed", "transposed", "expanded", "sliced", "any"]))
    strides = row_major(shape)
    if kind == "transposed":
        order = draw(st.permutations(range(len(shape))))
        inner = row_major(tuple(shape[axis] for axis in order))
        strides = tuple(inner[order.index(axis)] for axis in range(len(shape)))
    elif kind == "expanded":
        strides = tuple(stride * draw(st.integers(0, 1)) for stride in strides)
    elif kind == "sliced":
        strides = row_major(tuple(size + draw(st.integers(0, 4)) for size in shape))
        strides = tuple(stride * draw(st.integers(1, 3)) for stride in strides)
    elif kind == "any":
        strides = tuple(draw(st.integers(0, 9)) for _ in shape)
    return shape, strides, draw(st.integers(0, 9))


def _view(data: bytes, dtype: DType, shape: Any, strides: Any, start: int) -> RawArray:
    """What numpy says that the view holds."""
    unit = dtype.itemsize
    count = (len(data) - start) // unit
    flat = np.frombuffer(data[start : start + count * unit], dtype.raw)
    return as_strided(flat, shape, tuple(stride * unit for stride in strides))


def _bytes(shape: Any, strides: Any, start: int, unit: int) -> bytes:
    """Just enough bytes for the view, no two near ones alike."""
    span = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    numbers = np.arange(start + max(0, span) * unit, dtype=np.uint32)
    return bytes((numbers * 2654435761 >> 13).astype(np.uint8))


def _assembled(tensor: LazyTensor, limit: int) -> RawArray:
    whole = np.zeros(tensor.extent, tensor.spec.dtype.raw)
    for box in blocks(tensor.extent, tensor.spec.dtype.itemsize, limit, tensor.grain):
        block = np.zeros(shape_of(box), tensor.spec.dtype.raw)
        tensor.fill(block, box)
        whole[_slices(box)] = block
    return whole


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(lo, hi) for lo, hi in box)


@st.composite
def boxes(draw: st.DrawFn, extent: tuple[int, ...]) -> Box:
    """Any part of the extent, an empty one too."""
    return tuple(
        tuple(sorted((draw(st.integers(0, size)), draw(st.integers(0, size)))))  # type: ignore[misc]  # two of them
        for size in extent
    )


@given(DTYPES, strided(), st.integers(1, 300), st.sampled_from([1, 16, 100, 4 << 20]))
@settings(max_examples=200)
def test_blocks_put_together_are_what_numpy_sees(
    recorder: Make, dtype: DType, view: Any, limit: int, span: int
) -> None:
    shape, strides, start = view
    data = _bytes(shape, strides, start, dtype.itemsize)
    tensor = Leaf.strided(TensorSpec(dtype, shape), recorder(data), start, strides)
    with mock.patch.object(module, "SPAN", span), mock.patch.object(module, "GAP", span % 97):
        assert _assembled(tensor, limit).tobytes() == _view(data, dtype, *view).tobytes()


@given(DTYPES, strided(), st.data(), st.sampled_from([1, 16, 100, 4 << 20]))
@settings(max_examples=300)
def test_any_box_reads_exactly_what_it_needs(
    recorder: Make, dtype: DType, view: Any, data: st.DataObject, span: int
) -> None:
    shape, strides, start = view
    content = _bytes(shape, strides, start, dtype.itemsize)
    source = recorder(content)
    tensor = Leaf.strided(TensorSpec(dtype, shape), source, start, strides)
    box = data.draw(boxes(tensor.extent))
    out = np.zeros(shape_of(box), dtype.raw)
    with mock.patch.object(module, "SPAN", span), mock.patch.object(module, "GAP", span % 97):
        needs = list(tensor.needs(box))
        assert source.reads == [], "to say what is needed reads nothing"
        tensor.fill(out, box)
    assert [(part.start, part.stop) for part in needs] == source.reads
    assert all(part.source is source for part in needs)
    assert out.tobytes() == _view(content, dtype, *view)[_slices(box)].tobytes()


@given(DTYPES, strided(), st.sampled_from([1, 16, 100]), st.sampled_from([1, 8, 1000]))
@settings(max_examples=300)
def test_no_read_is_larger_than_the_block_or_the_span(
    recorder: Make, dtype: DType, view: Any, span: int, gap: int
) -> None:
    shape, strides, start = view
    data = _bytes(shape, strides, start, dtype.itemsize)
    tensor = Leaf.strided(TensorSpec(dtype, shape), recorder(data), start, strides)
    with mock.patch.object(module, "SPAN", span), mock.patch.object(module, "GAP", gap):
        longest = max((part.stop - part.start for part in tensor.needs(full(shape))), default=0)
    assert longest <= max(span, prod(shape) * dtype.itemsize)


def test_gaps_inside_an_axis_count_when_the_next_one_follows_without_a_gap(recorder: Make) -> None:
    tensor = Leaf.strided(TensorSpec(BY_CODE["U8"], (40, 3)), recorder(bytes(2000)), 0, (41, 20))
    with mock.patch.object(module, "SPAN", 200):
        needs = list(tensor.needs(full((40, 3))))
    assert max(part.stop - part.start for part in needs) <= 200
    assert len(needs) == 10


@given(DTYPES, strided(), st.data())
def test_a_block_may_be_written_into_a_strided_place(
    recorder: Make, dtype: DType, view: Any, data: st.DataObject
) -> None:
    shape, strides, start = view
    content = _bytes(shape, strides, start, dtype.itemsize)
    tensor = Leaf.strided(TensorSpec(dtype, shape), recorder(content), start, strides)
    box = data.draw(boxes(shape))
    counts = shape_of(box)
    roomy = np.zeros(tuple(2 * count + 1 for count in reversed(counts)), dtype.raw)
    places: Any = (*(slice(1, None, 2) for _ in counts), ...)
    tensor.fill(roomy[places].T, box)
    assert roomy[places].T.tobytes() == _view(content, dtype, *view)[_slices(box)].tobytes()
    roomy[places] = np.zeros((), dtype.raw)
    assert not any(roomy.tobytes()), "nothing beside the block was touched"


@given(DTYPES, strided(), st.data())
def test_where_gives_the_elements_that_numpy_takes(
    recorder: Make, dtype: DType, view: Any, data: st.DataObject
) -> None:
    shape, strides, start = view
    if 0 in shape:
        return
    content = _bytes(shape, strides, start, dtype.itemsize)
    source = recorder(content)
    tensor = Leaf.strided(TensorSpec(dtype, shape), source, start, strides)
    mesh = tuple(
        np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=4)), np.int64)
        for size in shape
    )
    (place,) = tensor.where(mesh)
    numbers = np.zeros((), np.int64)
    for steps in place.steps:
        numbers = np.add.outer(numbers, steps)
    assert (place.source, place.dtype, place.itemsize) == (source, dtype, dtype.itemsize)
    unit = place.itemsize
    picked = [content[place.start + number * unit :][:unit] for number in numbers.flat]
    wanted = _view(content, dtype, *view)[np.ix_(*mesh)] if shape else _view(content, dtype, *view)
    assert b"".join(picked) == wanted.tobytes()
    assert [part.tolist() for part in place.select] == [list(range(len(axis))) for axis in mesh]
    assert source.reads == []


@pytest.mark.parametrize("code", ["F4", "F6_E2M3", "F6_E3M2"])
def test_elements_narrower_than_a_byte_are_a_flat_run_of_bytes(recorder: Make, code: str) -> None:
    data = bytes(range(60))
    tensor = Leaf.packed(TensorSpec(BY_CODE[code], (4, 8)), recorder(data), 5)
    nbytes = 32 * BY_CODE[code].bits // 8
    assert tensor.extent == (nbytes,)
    assert _assembled(tensor, 7).tobytes() == data[5 : 5 + nbytes]


def test_packed_data_needs_no_scratch_and_is_read_straight_into_the_block(recorder: Make) -> None:
    source = recorder(bytes(range(256)))
    tensor = Leaf.packed(TensorSpec(BY_CODE["F32"], (8, 8)), source, 0)
    assert tensor.scratch == 0
    out = np.zeros((2, 8), "<u4")
    with mock.patch.object(source, "readinto") as readinto:
        tensor.fill(out, ((3, 5), (0, 8)))
    ((buffer, offset),) = (call.args for call in readinto.call_args_list)
    assert offset == 96
    assert np.shares_memory(np.frombuffer(buffer, np.uint8), out)


def test_strides_that_are_row_major_count_as_packed(recorder: Make) -> None:
    source = recorder(bytes(64))
    spec = TensorSpec(BY_CODE["F32"], (2, 3))
    assert Leaf.strided(spec, source, 0, (3, 1)).scratch == 0
    assert Leaf.strided(TensorSpec(BY_CODE["F32"], (2, 0)), source, 0, (9, 9)).scratch == 0
    assert Leaf.strided(spec, source, 0, (0, 1)).scratch == module.SPAN


def test_blocks_of_a_transposed_matrix_have_runs_worth_a_read(recorder: Make) -> None:
    spec = TensorSpec(BY_CODE["F32"], (8000, 6000))
    tensor = Leaf.strided(spec, recorder(b""), 0, (1, 8000))
    block = next(blocks(tensor.extent, 4, 1 << 20, tensor.grain))
    assert block == ((0, 349), (0, 6000))
    assert prod(shape_of(block)) * 4 <= module.COLUMNS
    assert tensor.scratch == module.SPAN + 2 * module.COLUMNS
    small = Leaf.strided(TensorSpec(BY_CODE["F32"], (30, 20)), recorder(b""), 0, (1, 30))
    assert small.grain == 30, "never more rows than there are"


def test_an_expanded_axis_is_read_once(recorder: Make) -> None:
    source = recorder(bytes(range(16)))
    tensor = Leaf.strided(TensorSpec(BY_CODE["F32"], (1000, 4)), source, 0, (0, 1))
    tensor.fill(np.zeros((1000, 4), "<u4"), ((0, 1000), (0, 4)))
    assert source.reads == [(0, 16)]


def test_columns_far_apart_are_read_without_what_lies_between(recorder: Make) -> None:
    source = recorder(bytes(4 * 1000 * 50))
    tensor = Leaf.strided(TensorSpec(BY_CODE["F32"], (50, 2)), source, 0, (1000, 1))
    tensor.fill(np.zeros((50, 2), "<u4"), ((0, 50), (0, 2)))
    assert source.reads == [(4000 * row, 4000 * row + 8) for row in range(50)]


class Endless:
    """A source of any size that holds nothing and costs nothing."""

    name = "endless"
    size = 1 << 60

    def readinto(self, buffer: memoryview, offset: int) -> None:
        buffer[:1] = b"x"

    def stage(self, ranges: object) -> None:
        raise AssertionError("nothing here is remote")


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((40_000, 4_000), (1, 40_000)),  # transposed
        ((40_000, 1 << 20), (0, 1)),  # expanded
        ((1 << 24, 3, 64), (192, 1, 3)),  # channels last
        ((30_000, 30_000), (60_007, 2)),  # every other column
        ((1 << 20, 1 << 20), (1, 1)),  # overlapping
        ((1 << 20, 3), (501, 250)),  # gaps within, none between
    ],
)
def test_memory_stays_within_block_and_scratch(
    shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    tensor = Leaf.strided(TensorSpec(BY_CODE["F32"], shape), Endless(), 0, strides)
    limit = 4 << 20
    cuts = islice(blocks(shape, 4, limit, tensor.grain), 2)
    tracemalloc.start()
    try:
        for box in cuts:
            tensor.fill(np.empty(shape_of(box), "<u4"), box)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= limit + tensor.scratch + (1 << 20)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((), ()), ((3,), (1,)), ((2, 3, 4), (12, 4, 1)), ((2, 0, 4), (4, 4, 1)), ((1, 1), (1, 1))],
)
def test_row_major_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    assert row_major(shape) == strides
