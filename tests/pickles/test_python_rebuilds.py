"""Containers and small values of the standard library, in every form that pickles give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hfconvert.pickles.rebuild_python import REBUILDS
from hfconvert.pickles.values import Global, Group, Span, Stub, Table


def rebuild(module: str, name: str, *args: Any) -> Any:
    return REBUILDS[Global(module, name)](args)


@pytest.mark.parametrize("module", ["builtins", "__builtin__"])
def test_plain_containers(module: str) -> None:
    assert rebuild(module, "list") == []
    assert rebuild(module, "list", (1, 2)) == [1, 2]
    assert rebuild(module, "tuple", [1, 2]) == (1, 2)
    assert rebuild(module, "tuple") == ()
    assert rebuild(module, "dict") == {}
    assert rebuild(module, "dict", {"a": 1}) == {"a": 1}
    assert rebuild(module, "dict", [("a", 1), ["b", 2]]) == {"a": 1, "b": 2}
    assert rebuild(module, "list", Group("set", [1])) == [1]


def test_dictionaries_of_collections() -> None:
    made = rebuild("collections", "OrderedDict", [["a", 1]])
    assert isinstance(made, Table)
    assert (made.kind, dict(made)) == ("OrderedDict", {"a": 1})
    assert rebuild("collections", "defaultdict", Global("builtins", "list"), {"a": 1}) == {"a": 1}
    assert rebuild("collections", "Counter") == {}


def test_keys_that_cannot_be_hashed() -> None:
    (key,) = rebuild("collections", "OrderedDict", [([], 1)])
    assert type(key) is Stub


@pytest.mark.parametrize("name", ["bytes", "bytearray"])
def test_bytes(name: str) -> None:
    assert rebuild("builtins", name) == b""
    assert rebuild("builtins", name, b"ab") == b"ab"
    assert rebuild("builtins", name, "\xff", "latin-1") == b"\xff"
    for args in ((5,), (1 << 40,), ("a", "rot13"), ([1, 2],)):
        with pytest.raises((TypeError, ValueError)):
            rebuild("builtins", name, *args)


def test_a_long_run_of_bytes_stays_where_it_is(source: Callable[..., Any]) -> None:
    span = Span(source(b"abc"), 0, 3)
    assert rebuild("builtins", "bytearray", span) is span


def test_encoded_text() -> None:
    assert rebuild("_codecs", "encode", "\xe9", "latin1") == b"\xe9"
    assert rebuild("_codecs", "encode", "\xe9") == b"\xc3\xa9"
    for args in ((b"a", "latin1"), ("a", None), ("\u20ac", "latin1")):
        with pytest.raises(ValueError, match=r"latin|None"):
            rebuild("_codecs", "encode", *args)


def test_complex_numbers() -> None:
    assert rebuild("builtins", "complex", 1, 2.5) == 1 + 2.5j
    with pytest.raises(TypeError):
        rebuild("builtins", "complex", "1", 2)


@pytest.mark.parametrize("args", [(None,), (5,), ("text",), (Stub("x"),), ({"a": 1},)])
def test_sets_of_what_is_no_sequence(args: Any) -> None:
    with pytest.raises(TypeError):
        rebuild("builtins", "set", *args)


@pytest.mark.parametrize("source", [5, None, "ab", [1, 2], [("a", 1, 2)]])
def test_dictionaries_of_what_has_no_pairs(source: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        rebuild("builtins", "dict", source)


def test_objects_of_protocol_0() -> None:
    unknown = Global("m", "X")
    made = rebuild("copyreg", "_reconstructor", unknown, Global("builtins", "object"), None)
    assert (type(made), made.kind, made.state) == (Stub, unknown, None)
    known = Global("collections", "OrderedDict")
    made = rebuild("copy_reg", "_reconstructor", known, Global("builtins", "dict"), {"a": 1})
    assert made == {"a": 1}
    deep = rebuild("copyreg", "_reconstructor", [], None, None)
    assert type(deep) is Stub
