"""A hostile pickle costs no more than its bounds, whatever it does."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from typing import Any

import pytest

from hfconvert.pickles.machine import BrokenPickleError
from hfconvert.pickles.values import Stub, Table

DEEP = 200_000


def test_operations_are_counted(loaded: Callable[..., Any]) -> None:
    assert loaded(b"N0" * 40 + b"N.", operations=100).value is None
    with pytest.raises(BrokenPickleError, match="more than 100 operations"):
        loaded(b"N0" * 60 + b"N.", operations=100)


def test_operations_are_shared_by_the_pickles_of_a_file(source: Callable[..., Any]) -> None:
    from hfconvert.pickles.limits import Limits
    from hfconvert.pickles.machine import Unpickler
    from hfconvert.pickles.stream import Stream

    data = (b"N0" * 10 + b"N.") * 6
    stream, unpickler = (
        Stream(source(data), 0, len(data)),
        Unpickler({}, limits=Limits(operations=100)),
    )
    with pytest.raises(BrokenPickleError, match="operations"):
        [unpickler.load(stream) for _ in range(6)]


def test_objects_are_counted(loaded: Callable[..., Any]) -> None:
    with pytest.raises(BrokenPickleError, match="more than 10 objects"):
        loaded(b"]" * 11 + b".", containers=10)


def test_strings_are_counted(loaded: Callable[..., Any]) -> None:
    text = b"X" + struct.pack("<I", 60) + b"a" * 60
    assert loaded(text + b".", text=110).value == "a" * 60
    with pytest.raises(BrokenPickleError, match="more than 110 bytes"):
        loaded(text * 2 + b".", text=110)


def test_short_strings_are_counted_with_what_python_adds(loaded: Callable[..., Any]) -> None:
    with pytest.raises(BrokenPickleError, match="more than 1000 bytes"):
        loaded(b"U\x01a" * 21 + b".", text=1000)


def test_a_rebuilt_value_may_not_multiply_what_it_is_given(loaded: Callable[..., Any]) -> None:
    """One list of 1000 items, copied into a set again and again."""
    made = b"]q\x00(" + b"K\x01" * 1000 + b"e0" + b"c__builtin__\nset\nh\x00\x85R0" * 100
    with pytest.raises(BrokenPickleError, match="operations"):
        loaded(made + b"N.", operations=10_000)


def test_encoding_one_string_again_and_again_is_counted(loaded: Callable[..., Any]) -> None:
    text = b"X" + struct.pack("<I", 1000) + b"a" * 1000 + b"q\x00"
    call = b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R"
    with pytest.raises(BrokenPickleError, match="strings take more"):
        loaded(text + call * 100 + b".", text=20_000)


@pytest.mark.parametrize("size", [1025, 1 << 31])
def test_numbers_of_a_megabyte_are_refused(loaded: Callable[..., Any], size: int) -> None:
    data = b"\x8b" + struct.pack("<I", size) + b"\x01" * 2000 + b"."
    with pytest.raises(BrokenPickleError, match="an integer of"):
        loaded(data)


def test_numbers_of_many_digits_are_refused(loaded: Callable[..., Any]) -> None:
    with pytest.raises(BrokenPickleError, match="a number of 5000 digits"):
        loaded(b"I" + b"1" * 5000 + b"\n.")


def test_a_string_is_not_believed_to_be_as_long_as_it_says(loaded: Callable[..., Any]) -> None:
    with pytest.raises(BrokenPickleError):
        loaded(b"\x8e" + struct.pack("<Q", 1 << 62) + b"abc.")


def test_a_line_without_end_is_refused(loaded: Callable[..., Any]) -> None:
    with pytest.raises(BrokenPickleError, match="middle"):
        loaded(b"V" + b"a" * (3 << 20))


def test_names_without_end_are_refused(loaded: Callable[..., Any]) -> None:
    with pytest.raises(BrokenPickleError, match="too long"):
        loaded(b"c" + b"a." * 3000 + b"\nb\n.")


def test_nesting_costs_no_recursion(loaded: Callable[..., Any]) -> None:
    assert type(loaded(b"]" * 1000 + b"a" * 999 + b".").value) is list
    assert type(loaded(b")" + b"\x85" * DEEP + b".").value) is tuple
    assert type(loaded(b"(" * DEEP + b"N" + b"t" * DEEP + b".").value) is tuple
    calls = b"c__main__\nX\n" * 10_000 + b")" + b"R\x85" * 9_999 + b"R."
    assert type(loaded(calls).value) is Stub


def test_a_key_that_nests_deep_is_not_hashed(loaded: Callable[..., Any]) -> None:
    key = b")" + b"\x85" * DEEP
    for data in (
        b"}" + key + b"K\x01s.",
        b"(" + key + b"K\x01d.",
        b"ccollections\nOrderedDict\n](" + key + b"K\x01\x86e\x85R.",
        b"c__builtin__\ndict\n](" + key + b"K\x01\x86e\x85R.",
        b"c__builtin__\nset\n](" + key + b"e\x85R.",
        b"\x8f(" + key + b"\x90.",
    ):
        loaded(data)


@pytest.mark.parametrize("key", [b"]", b"}", b"\x8f", b"(K\x01]t", b"\x8a\x20" + b"\x7f" * 32])
def test_keys_that_cannot_be_hashed_are_kept_as_stubs(
    loaded: Callable[..., Any], key: bytes
) -> None:
    found = loaded(b"}" + key + b"K\x01s.").value
    assert [type(item) for item in found] == [Stub]
    assert list(found.values()) == [1]


def test_a_memo_can_be_sparse(loaded: Callable[..., Any]) -> None:
    assert loaded(b"Nr\xff\xff\xff\x7f0j\xff\xff\xff\x7f.").value is None


def test_a_dictionary_updated_with_itself(loaded: Callable[..., Any]) -> None:
    found = loaded(b"}q\x00K\x01h\x00sccollections\nCounter\nh\x00\x85R.").value
    assert isinstance(found, Table)
    assert found[1][1] is found[1]


def test_recursive_reduce_of_python_itself(loaded: Callable[..., Any]) -> None:
    """`copyreg.__newobj__` of `copyreg.__newobj__` of ... stays data."""
    nested = b"(" + b"ccopyreg\n__newobj__\n" * 5000 + b"t"
    assert type(loaded(b"ccopyreg\n__newobj__\n" + nested + b"R.").value) is Stub


def test_what_a_deep_value_is_called_costs_nothing(loaded: Callable[..., Any]) -> None:
    """Values that are called, or stand where a class should, are never printed."""
    deep = b")" + b"\x85" * DEEP
    assert loaded(deep + b")R.").value.name == "a tuple"


def test_pickles_of_python_within_the_bounds(loaded: Callable[..., Any]) -> None:
    value = {f"key {number}": [number, float(number)] for number in range(20_000)}
    assert loaded(pickle.dumps(value, 2)).value == value
