from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

from hfconvert.tensors import compare
from hfconvert.tensors.compare import same_values
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf

Make = Callable[..., Any]
F32 = BY_CODE["F32"]


def _packed(source: Any, code: str = "F32", shape: tuple[int, ...] = (6, 5)) -> Leaf:
    return Leaf.packed(TensorSpec(BY_CODE[code], shape), source, 0)


def test_equal_bytes_in_two_sources_are_the_same(recorder: Make) -> None:
    data = np.arange(30, dtype="<f4").tobytes()
    assert same_values(_packed(recorder(data)), _packed(recorder(data)))


@pytest.mark.parametrize("position", [0, 59, 119])
def test_one_bit_is_a_difference(recorder: Make, position: int) -> None:
    data = np.arange(30, dtype="<f4").tobytes()
    other = bytearray(data)
    other[position] ^= 1
    with mock.patch.object(compare, "BLOCK", 16):
        assert not same_values(_packed(recorder(data)), _packed(recorder(bytes(other))))


def test_nan_is_itself_and_signed_zeros_differ(recorder: Make) -> None:
    nan = np.array([np.nan, 1], "<f4").tobytes()
    assert same_values(_packed(recorder(nan), shape=(2,)), _packed(recorder(nan), shape=(2,)))
    plus, minus = np.array([0.0], "<f4").tobytes(), np.array([-0.0], "<f4").tobytes()
    assert not same_values(
        _packed(recorder(plus), shape=(1,)), _packed(recorder(minus), shape=(1,))
    )


def test_another_spec_is_another_tensor_and_nothing_is_read(recorder: Make) -> None:
    one, other = recorder(bytes(120)), recorder(bytes(120))
    assert not same_values(_packed(one), _packed(other, "I32"))
    assert not same_values(_packed(one), _packed(other, shape=(5, 6)))
    assert one.reads == other.reads == []


def test_a_transposed_view_equals_its_packed_copy(recorder: Make) -> None:
    values = np.arange(30, dtype="<f4").reshape(5, 6)
    view = Leaf.strided(TensorSpec(F32, (6, 5)), recorder(values.tobytes()), 0, (1, 6))
    copy = _packed(recorder(values.T.tobytes()))
    with mock.patch.object(compare, "BLOCK", 24):
        assert same_values(view, copy)


def test_opaque_elements_of_sixteen_bytes(recorder: Make) -> None:
    data = bytes(range(64))
    changed = data[:63] + b"\0"
    one = _packed(recorder(data), "complex128", (4,))
    assert same_values(one, _packed(recorder(data), "complex128", (4,)))
    assert not same_values(one, _packed(recorder(changed), "complex128", (4,)))


def test_reading_stops_at_the_first_difference(recorder: Make) -> None:
    one, other = recorder(bytes(120)), recorder(b"\1" + bytes(119))
    with mock.patch.object(compare, "BLOCK", 20):
        assert not same_values(_packed(one), _packed(other))
    assert one.reads == other.reads == [(0, 20)]


def test_empty_tensors_are_the_same_without_a_read(recorder: Make) -> None:
    assert same_values(_packed(recorder(b""), shape=(0, 3)), _packed(recorder(b""), shape=(0, 3)))
