"""Objects of any class are absorbed as data; nothing is looked up and nothing is called."""

from __future__ import annotations

import argparse
import collections
import copyreg
import datetime
import enum
import functools
import io
import pathlib
import pickle
import types
from collections.abc import Callable
from typing import Any

import pytest

from hfconvert.pickles.values import Global, Group, Plain, Stub, Table


class Color(enum.Enum):
    RED = 7


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


class Keywords:
    size = 0

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, int]]:
        return (), {"size": 3}


class Rows(list[int]):
    pass


class Names(dict[str, int]):
    pass


def named(name: str) -> Global:
    return Global(__name__, name)


@pytest.mark.parametrize("protocol", range(6))
def test_an_object_keeps_its_class_and_state(loaded: Callable[..., Any], protocol: int) -> None:
    found = loaded(pickle.dumps(Point(5), protocol))
    assert type(found.value) is Stub
    assert (found.value.kind, found.value.state) == (named("Point"), {"x": 5})
    assert found.unpickler.stubbed == (f"{__name__}.Point",)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_list_of_a_class_keeps_its_items(loaded: Callable[..., Any], protocol: int) -> None:
    assert loaded(pickle.dumps(Rows([1, 2]), protocol)).value.appended == [1, 2]


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_dictionary_of_a_class_keeps_its_items(loaded: Callable[..., Any], protocol: int) -> None:
    assert loaded(pickle.dumps(Names(a=1), protocol)).value.items == [("a", 1)]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_keyword_arguments_are_kept(loaded: Callable[..., Any], protocol: int) -> None:
    found = loaded(pickle.dumps(Keywords(), protocol))
    assert type(found.value) is Stub
    kept = found.value.kwargs if protocol > 3 else found.value.kind.state[2]
    assert kept == {"size": 3}
    assert "dangerous" not in found.verdicts.values()


def test_the_member_of_an_enum(loaded: Callable[..., Any]) -> None:
    found = loaded(pickle.dumps(Color.RED, 4))
    assert isinstance(found.value, (Stub, Global))
    assert "dangerous" not in found.verdicts.values()


ENUM_OF_PYTHON_3_11 = b"cbuiltins\ngetattr\ncmodels\nColor\nX\x03\x00\x00\x00RED\x86R."


def test_an_enum_as_python_3_11_pickles_it(loaded: Callable[..., Any]) -> None:
    found = loaded(ENUM_OF_PYTHON_3_11)
    assert found.value == Global("models", "Color.RED")
    assert set(found.verdicts.values()) == {"unknown"}


def test_a_class_in_a_class_may_be_made(loaded: Callable[..., Any]) -> None:
    found = loaded(ENUM_OF_PYTHON_3_11[:-1] + b")\x81.")
    assert found.value.kind == Global("models", "Color.RED")
    assert found.verdicts["builtins.getattr"] == "unknown"


def test_a_bound_method_is_kept(loaded: Callable[..., Any]) -> None:
    found = loaded(b"cbuiltins\ngetattr\ncm\nModel\n)\x81X\x03\x00\x00\x00run\x86R.")
    assert type(found.value) is Stub
    assert found.verdicts["builtins.getattr"] == "unknown"


@pytest.mark.parametrize(
    "abuse",
    [
        b"cbuiltins\ngetattr\ncm\nModel\n)\x81X\x03\x00\x00\x00run\x86R)R.",
        b"cbuiltins\ngetattr\ncm\nModel\nX\x0b\x00\x00\x00__globals__\x86R.",
        b"cbuiltins\ngetattr\nX\x01\x00\x00\x00aX\x05\x00\x00\x00upper\x86R.",
        b"cbuiltins\ngetattr\ncm\nModel\n\x85R.",
        b"cbuiltins\ngetattr\nN\x85R.",
    ],
    ids=["bound method called", "reaches through", "of a string", "one argument", "of nothing"],
)
def test_getattr_in_any_other_way_is_dangerous(loaded: Callable[..., Any], abuse: bytes) -> None:
    assert loaded(abuse).verdicts["builtins.getattr"] == "dangerous"


def test_getattr_of_a_module_is_judged_by_what_it_reaches(loaded: Callable[..., Any]) -> None:
    found = loaded(b"cbuiltins\ngetattr\ncmodels\nhelpers\nX\x06\x00\x00\x00system\x86R.")
    assert found.verdicts["models.helpers.system"] == "dangerous"


CALLS = {
    "reduce": b"cos\nsystem\nX\x02\x00\x00\x00ls\x85R.",
    "instance": b"(X\x02\x00\x00\x00lsios\nsystem\n.",
    "object": b"(cos\nsystem\nX\x02\x00\x00\x00lso.",
    "newobj": b"cos\nsystem\nX\x02\x00\x00\x00ls\x85\x81.",
    "newobj_ex": b"cos\nsystem\nX\x02\x00\x00\x00ls\x85}\x92.",
    "stack_global": b"X\x02\x00\x00\x00osX\x06\x00\x00\x00system\x93X\x02\x00\x00\x00ls\x85R.",
    "build": b"cos\nsystem\n}X\x01\x00\x00\x00aK\x01sb.",
}


@pytest.mark.parametrize("data", CALLS.values(), ids=CALLS)
def test_every_way_to_call_stays_data(loaded: Callable[..., Any], data: bytes) -> None:
    found = loaded(data)
    assert isinstance(found.value, (Stub, Global))
    assert found.verdicts == {"os.system": "dangerous"}


def test_extension_codes_are_no_names(loaded: Callable[..., Any]) -> None:
    assert loaded(b"\x82\x05.").verdicts == {"copyreg extension.5": "unknown"}


def test_a_reconstructed_object_of_a_known_class(loaded: Callable[..., Any]) -> None:
    made = argparse.Namespace(lr=0.1)
    for protocol in range(6):
        found = loaded(pickle.dumps(made, protocol)).value
        assert isinstance(found, Plain)
        assert (found.kind, found.state) == ("argparse.Namespace", {"lr": 0.1})


def test_attributes_of_an_ordered_dict_are_kept_apart(loaded: Callable[..., Any]) -> None:
    made = collections.OrderedDict(a=1)
    made._metadata = {"": {"version": 1}}  # type: ignore[attr-defined]  # as torch does
    found = loaded(pickle.dumps(made, 2)).value
    assert isinstance(found, Table)
    assert (dict(found), found.state) == ({"a": 1}, {"_metadata": {"": {"version": 1}}})


INERT: dict[str, tuple[Any, Callable[[Any], bool]]] = {
    "defaultdict": (collections.defaultdict(list, a=[1]), lambda v: v == {"a": [1]}),
    "counter": (collections.Counter("aab"), lambda v: v == {"a": 2, "b": 1}),
    "deque": (collections.deque([1, 2], maxlen=3), lambda v: v.items == [1, 2]),
    "slice": (slice(1, 2), lambda v: v.args == (1, 2, None)),
    "range": (range(3), lambda v: v.args == (0, 3, 1)),
    "complex": (1 + 2j, lambda v: v == 1 + 2j),
    "path": (pathlib.PurePosixPath("/a/b"), lambda v: "/".join(v.args).endswith("a/b")),
    "date": (datetime.date(2020, 1, 2), lambda v: v.kind == "datetime.date"),
    "partial": (functools.partial(int, "1"), lambda v: v.kind == "functools.partial"),
    "namespace": (types.SimpleNamespace(a=1), lambda v: v.state == {"a": 1}),
    "buffer": (io.BytesIO(b"abc"), lambda v: v.kind.endswith("BytesIO")),
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", INERT)
def test_small_classes_of_the_standard_library(
    loaded: Callable[..., Any], name: str, protocol: int
) -> None:
    value, holds = INERT[name]
    found = loaded(pickle.dumps(value, protocol))
    assert holds(found.value)
    assert set(found.verdicts.values()) <= {"inert"}
    assert found.unpickler.stubbed == ()


def test_a_bytearray_of_a_size_is_not_made(loaded: Callable[..., Any]) -> None:
    found = loaded(b"cbuiltins\nbytearray\n\x8a\x05\x00\x00\x00\x00\x7f\x85R.")
    assert type(found.value) is Stub


@pytest.mark.parametrize("codec", [b"rot13", b"hex", b"zlib_codec", b"unicode_escape"])
def test_other_codecs_are_not_applied(loaded: Callable[..., Any], codec: bytes) -> None:
    word = b"X" + len(codec).to_bytes(4, "little") + codec
    assert type(loaded(b"c_codecs\nencode\nX\x01\x00\x00\x00a" + word + b"\x86R.").value) is Stub


def test_groups_know_what_they_are(loaded: Callable[..., Any]) -> None:
    found = loaded(pickle.dumps(frozenset([1]), 4)).value
    assert isinstance(found, Group)
    assert (found.kind, found.items) == ("frozenset", [1])


def test_copyreg_is_as_it_was() -> None:
    assert Point not in copyreg.dispatch_table
