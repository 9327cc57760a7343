from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfconvert.checks import gather
from hfconvert.checks.gather import values_at
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import Place

Make = Callable[..., Any]
CONTENT = (np.arange(4000, dtype=np.uint64) * 2654435761 >> 9).astype(np.uint8).tobytes()
CODES = st.sampled_from(["U8", "BF16", "F32", "I64", "complex128"])
STEPS = st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=5), max_size=4)


def _place(source: Any, code: str, start: int, steps: list[list[int]]) -> Place:
    dtype = BY_CODE[code]
    arrays = tuple(np.array(step, np.int64) for step in steps)
    select = tuple(np.arange(len(step)) for step in steps)
    return Place(source, dtype, start, dtype.itemsize, arrays, select)


def _picked(content: bytes, place: Place) -> bytes:
    numbers = np.zeros((), np.int64)
    for step in place.steps:
        numbers = np.add.outer(numbers, step)
    unit, start = place.itemsize, place.start
    return b"".join(content[start + number * unit :][:unit] for number in numbers.flat)


@given(CODES, st.integers(0, 9), STEPS, st.sampled_from([16, 50, 8 << 20]), st.sampled_from([0, 9]))
@settings(max_examples=300)
def test_values_are_those_of_the_elements(
    recorder: Make, code: str, start: int, steps: list[list[int]], span: int, gap: int
) -> None:
    place = _place(recorder(CONTENT), code, start, steps)
    with mock.patch.object(gather, "SPAN_BYTES", span), mock.patch.object(gather, "GAP_BYTES", gap):
        values = values_at(place)
    assert values.shape == tuple(len(step) for step in steps)
    assert values.dtype == BY_CODE[code].raw
    assert values.tobytes() == _picked(CONTENT, place)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 3), st.sampled_from([1, 16, 10**6]))
def test_rows_with_gaps_between_them(
    recorder: Make, rows: int, columns: int, gap: int, run: int
) -> None:
    steps = [[row * (columns + gap) for row in range(rows)], list(range(columns))]
    place = _place(recorder(CONTENT), "F32", 4, steps)
    with mock.patch.object(gather, "RUN_BYTES", run):
        assert values_at(place).tobytes() == _picked(CONTENT, place)


def test_elements_that_follow_each_other_are_one_read(recorder: Make) -> None:
    source = recorder(CONTENT)
    values_at(_place(source, "F32", 8, [[12, 18, 24], [0, 3], [0, 1, 2]]))
    assert source.reads == [(8 + 48, 8 + 48 + 72)]


def test_long_rows_are_one_read_each(recorder: Make) -> None:
    source = recorder(CONTENT)
    values_at(_place(source, "F32", 0, [[0, 500], list(range(200))]))
    assert source.reads == [(0, 800), (2000, 2800)]


def test_scattered_elements_are_read_without_what_lies_far_between(recorder: Make) -> None:
    source = recorder(bytes(1_000_000))
    values_at(_place(source, "F32", 0, [[0, 1], [0, 100_000, 200_000]]))
    assert source.reads == [(0, 8), (400_000, 400_008), (800_000, 800_008)]


@pytest.mark.parametrize("span", [8, 100, 1000])
def test_no_read_is_longer_than_the_span(recorder: Make, span: int) -> None:
    source = recorder(CONTENT)
    with mock.patch.object(gather, "SPAN_BYTES", span):
        values_at(_place(source, "BF16", 0, [list(range(0, 1500, 3)), [0, 2]]))
    assert max(stop - start for start, stop in source.reads) <= span
