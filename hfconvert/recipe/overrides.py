"""`--set key.path=value`: values of the command line over those of the file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hfconvert.recipe.document import UNREAD, Document, compose
from hfconvert.recipe.faults import Fault, shown
from hfconvert.recipe.positions import KeyPath, Mark, Positions
from hfconvert.visible import one_line


def override(document: Document, overrides: Iterable[str]) -> Document:
    """The document with each `key.path=value` put in, in order.

    The value is YAML under the same rules as the file. A number in the path is the index of a list,
    the list's length appends; mappings that are missing are made. Whatever is said about such a value
    later names `--set key.path`. What cannot be put in is a fault of the result.
    """
    for number, text in enumerate(overrides):
        document = _override(document, text, number)
    return document


class _MisplacedError(Exception):
    """The path leads through something that has no such part."""

    def __init__(self, what: str, why: str, do: str) -> None:
        super().__init__(what)
        self.beats = (what, why, do)


def _override(document: Document, text: str, number: int) -> Document:
    written, equals, value_text = text.partition("=")
    mark = Mark(0, number, f"--set {one_line(written)}")
    if not equals or not written or "" in written.split("."):
        return _with_fault(
            document,
            Mark(0, number, f"--set {one_line(text)}"),
            ("is not key.path=value", "", "write --set dtype=bfloat16"),
        )
    value = compose(value_text, mark.text)
    if value.faults:
        return _with_fault(document, mark, *((f.what, f.why, f.do) for f in value.faults))
    parts = written.split(".")
    try:
        changed, path = _put(document.value, parts, value.value, ())
    except _MisplacedError as misplaced:
        return _with_fault(document, mark, misplaced.beats)
    if len(path) < len(parts):  # what it goes into could not be read; that is a fault already
        return document
    return replace(
        document,
        value=changed,
        positions=_marked(document.positions, path, value.value, mark),
        unread=frozenset(at for at in document.unread if at[: len(path)] != path),
    )


def _with_fault(document: Document, mark: Mark, *beats: tuple[str, str, str]) -> Document:
    return replace(document, faults=(*document.faults, *(Fault(mark, *three) for three in beats)))


def _put(container: Any, parts: list[str], value: Any, path: KeyPath) -> tuple[Any, KeyPath]:
    """The container with the value put in, and the path where it went; shorter where that is unread."""
    if not parts:
        return value, path
    if container is UNREAD:
        return UNREAD, path
    first, *rest = parts
    if container is None:
        container = () if first.isdecimal() else {}
    if isinstance(container, dict):
        inner, at = _put(container.get(first), rest, value, (*path, first))
        return {**container, first: inner}, at
    if isinstance(container, tuple):
        index = _index(first, len(container), path)
        item = container[index] if index < len(container) else None
        inner, at = _put(item, rest, value, (*path, index))
        return (*container[:index], inner, *container[index + 1 :]), at
    raise _MisplacedError(
        f"{_named(path)} is {shown(container)}, which has no parts",
        "the path goes on behind a value",
        f"set {_named(path)} itself" if path else "write a mapping into the file",
    )


def _named(path: KeyPath) -> str:
    return shown(".".join(map(str, path))) if path else "the file"


def _index(text: str, length: int, path: KeyPath) -> int:
    if text.isdecimal() and len(text) < 7 and int(text) <= length:
        return int(text)
    raise _MisplacedError(
        f"{shown(text)} is not an index of {_named(path)}",
        f"it is a list of {length}",
        f"use 0 to {length}; {length} appends" if length else "use 0",
    )


def _marked(positions: Positions, path: KeyPath, value: Any, mark: Mark) -> Positions:
    marked = positions.without(path)
    for depth in range(1, len(path)):
        if path[:depth] not in marked.values:
            marked.add(path[:depth], mark, mark)
    _mark_all(marked, path, value, mark)
    return marked


def _mark_all(positions: Positions, path: KeyPath, value: Any, mark: Mark) -> None:
    positions.add(path, mark, mark)
    if isinstance(value, dict):
        for key, item in value.items():
            _mark_all(positions, (*path, key), item, mark)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            _mark_all(positions, (*path, index), item, mark)
