"""Numpy arrays and scalars, under the names of numpy 1 and 2."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hfconvert.pickles.values import ArrayRef, Plain, Span


def old(data: bytes) -> bytes:
    """The same pickle with the module names of numpy 1, which are one letter shorter."""
    text = data.replace(b"numpy._core.", b"numpy.core.")
    return text.replace(b"\x8c\x16numpy.core.multiarray", b"\x8c\x15numpy.core.multiarray").replace(
        b"\x8c\x13numpy.core.numeric", b"\x8c\x12numpy.core.numeric"
    )


@pytest.mark.parametrize("rename", [bytes, old], ids=["numpy 2", "numpy 1"])
@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays(
    loaded: Callable[..., Any], protocol: int, order: Any, rename: Callable[[bytes], bytes]
) -> None:
    made = np.array([[1, 2, 3], [4, 5, 6]], dtype="<f4", order=order)
    data = pickle.dumps(made, protocol)
    data = rename(data) if protocol == 2 else data
    found = loaded(data)
    array = found.value
    assert isinstance(array, ArrayRef)
    assert (array.shape, array.fortran) == ((2, 3), order == "F")
    assert array.dtype is not None
    assert (array.dtype.code, array.dtype.order, array.data) == ("f4", "<", made.tobytes(order))
    assert set(found.verdicts.values()) == {"inert"}


def test_arrays_by_protocol_5(loaded: Callable[..., Any]) -> None:
    made = np.arange(6, dtype="<i8").reshape(2, 3)
    array = loaded(pickle.dumps(made, 5)).value
    assert isinstance(array, ArrayRef)
    assert (array.shape, array.data) == ((2, 3), made.tobytes())


def test_a_big_array_stays_in_the_source(loaded: Callable[..., Any]) -> None:
    array = loaded(pickle.dumps(np.zeros(10_000), 4)).value
    assert isinstance(array.data, Span)
    assert array.data.size == 80_000


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    "value",
    [
        *(np.float32(1.5), np.float64(-2.0), np.float16(0.5), np.int64(-3), np.uint8(200)),
        *(np.bool_(True), np.complex64(1 + 2j), np.array(7.0, dtype=">f8")[()]),
    ],
    ids=str,
)
def test_scalars_are_numbers(loaded: Callable[..., Any], value: Any, protocol: int) -> None:
    assert loaded(pickle.dumps(value, protocol)).value == value.item()


def test_other_scalars_are_kept(loaded: Callable[..., Any]) -> None:
    assert isinstance(loaded(pickle.dumps(np.datetime64("2020-01-01"), 2)).value, Plain)


def test_arrays_of_objects_keep_them(loaded: Callable[..., Any]) -> None:
    array = loaded(pickle.dumps(np.array([None, "a"], dtype=object), 2)).value
    assert array.data == [None, "a"]
