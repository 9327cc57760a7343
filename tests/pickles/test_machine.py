"""Plain data reads back as what was pickled, by every protocol; damage meets one error."""

from __future__ import annotations

import contextlib
import pickle
import pickletools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.pickles.limits import DEFAULT
from hfconvert.pickles.machine import OPCODES, BrokenPickleError, Unpickler
from hfconvert.pickles.rebuilds import REBUILDS
from hfconvert.pickles.stream import Stream
from hfconvert.pickles.values import Group, Span

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=300)
)
KEYS = st.text(max_size=10) | st.integers(-(1 << 40), 1 << 40) | st.tuples(st.text(max_size=3))
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=4).map(OrderedDict)
    ),
    max_leaves=25,
)


@given(VALUES, st.integers(0, 5))
def test_plain_data_reads_back(loaded: Callable[..., Any], value: Any, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    assert loaded(data).value == value
    assert set(loaded(data).verdicts.values()) <= {"inert"}


@given(st.lists(VALUES, min_size=1, max_size=5), st.integers(0, 5))
def test_pickles_that_follow_each_other(
    source: Callable[..., Any], values: list[Any], protocol: int
) -> None:
    data = b"".join(pickle.dumps(value, protocol) for value in values)
    stream, unpickler = Stream(source(data), 0, len(data)), Unpickler(REBUILDS)
    assert [unpickler.load(stream) for _ in values] == values
    assert stream.left == 0


@given(VALUES, st.integers(0, 5), st.data())
def test_a_cut_meets_one_error(
    loaded: Callable[..., Any], value: Any, protocol: int, data: st.DataObject
) -> None:
    whole = pickle.dumps(value, protocol)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(BrokenPickleError):
        loaded(whole[:cut])


@given(st.binary(max_size=200))
def test_noise_meets_one_error_or_is_a_pickle(loaded: Callable[..., Any], noise: bytes) -> None:
    with contextlib.suppress(BrokenPickleError):
        loaded(noise)


def test_every_opcode_of_pickletools_is_known() -> None:
    assert set(OPCODES) | {b"."} == {op.code.encode("latin1") for op in pickletools.opcodes}


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("kind", [set, frozenset])
def test_sets_keep_their_items(loaded: Callable[..., Any], kind: type, protocol: int) -> None:
    found = loaded(pickle.dumps(kind([3, "a"]), protocol)).value
    assert isinstance(found, Group)
    assert (found.kind, set(found.items)) == (kind.__name__, {3, "a"})


def test_shared_objects_stay_shared(loaded: Callable[..., Any]) -> None:
    shared = [1]
    one, other = loaded(pickle.dumps((shared, shared))).value
    assert one is other


def test_a_list_may_hold_itself(loaded: Callable[..., Any]) -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    found = loaded(pickle.dumps(cycle)).value
    assert found[0] is found


def test_a_bytearray_is_bytes(loaded: Callable[..., Any]) -> None:
    assert [loaded(pickle.dumps(bytearray(b"ab"), p)).value for p in range(6)] == [b"ab"] * 6


def test_long_bytes_stay_in_the_source(source: Callable[..., Any]) -> None:
    payload = bytes(range(256)) * 4096
    data = source(pickle.dumps(["before", payload, "after"], 4))
    before, span, after = Unpickler(REBUILDS).load(Stream(data, 0, data.size))
    assert (before, after) == ("before", "after")
    assert isinstance(span, Span)
    assert data.data[span.start : span.start + span.size] == payload
    assert sum(stop - start for start, stop in data.reads) < 200_000


PYTHON2 = {
    b"S'it\\'s \\x41\\n'\n.": "it's A\n",
    b'S"double"\n.': "double",
    b"U\x03\xe9a\xff.": b"\xe9a\xff",
    b"T\x02\x00\x00\x00ok.": "ok",
    b"V\\u20ac\n.": "\u20ac",
    b"I01\n.": True,
    b"I00\n.": False,
    b"L12L\n.": 12,
    b"F1.5\n.": 1.5,
    b"(lp0\nI1\na.": [1],
    b"(dp0\nS'a'\nI1\ns.": {"a": 1},
}


@pytest.mark.parametrize("data", PYTHON2, ids=repr)
def test_strings_and_numbers_as_python_2_wrote_them(
    loaded: Callable[..., Any], data: bytes
) -> None:
    assert loaded(data).value == PYTHON2[data]


BROKEN = {
    b"": "ends in the middle",
    b".": "empty stack",
    b"h\x05.": "memo entry 5",
    b"t.": "never opened",
    b"(K\x01u.": "has no value",
    b"K\x01K\x02K\x03s.": "sets items of a int",
    b"K\x01K\x02a.": "appends to a int",
    b"\xff.": "no pickle opcode",
    b"\x80\x09.": "protocol 9",
    b"\x8a\xff" + b"\x01" * 20: "past the end",
    b"Ia1\n.": "number or string that is none",
    b"Sno\n.": "not quoted",
    b"\x97.": "outside the file",
    b"K\x01Q.": "outside the pickle",
    b"K\x01K\x02\x93.": "no string",
    b"X\xff\xff\xff\x7fa.": "past the end",
}


@pytest.mark.parametrize("data", BROKEN, ids=repr)
def test_what_is_wrong_is_said(loaded: Callable[..., Any], data: bytes) -> None:
    with pytest.raises(BrokenPickleError, match=BROKEN[data]):
        loaded(data)


def test_persistent_ids_are_answered(loaded: Callable[..., Any]) -> None:
    assert loaded(b"(K\x01Q)\x85Pname\nt.", lambda told: ("got", told)).value == (
        ("got", 1),
        ((),),
        ("got", "name"),
    )


def test_the_default_bounds_are_far_above_real_files() -> None:
    assert DEFAULT.operations > 1_000_000
    assert DEFAULT.text > 64_000_000
