"""`${a.b}`: the only substitution in recipes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from hfconvert.recipe.document import Document
from hfconvert.recipe.faults import Fault, name_hint, shown
from hfconvert.recipe.positions import KeyPath

RECIPE_ROOTS = ("config", "args", "source", "adapter")
BULK_ROOTS = (*RECIPE_ROOTS, "repo")

_OPENING = re.compile(r"\$\{([^}]*)(\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\Z")


def texts(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Every text of a document with its path, keys included (at the path of their value)."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), key
            yield from texts(item, (*path, key))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from texts(item, (*path, index))


def placeholders(document: Document) -> Iterator[tuple[KeyPath, str]]:
    """Every `a.b` of a `${a.b}`, with the path of the text that holds it."""
    for path, text in texts(document.value):
        for match in _OPENING.finditer(text):
            yield path, match[1]


def placeholder_faults(document: Document, roots: Iterable[str]) -> Iterator[Fault]:
    """What is wrong with the `${...}` of a document: not closed, not a name, of an unknown root."""
    known = tuple(roots)
    for path, text in texts(document.value):
        for match in _OPENING.finditer(text):
            beats = _wrong(match, known)
            if beats is not None:
                yield Fault(document.positions.value(path), *beats)


def fill_in(document: Document, values: Mapping[str, Any]) -> Document:
    """The document with every `${a.b}` whose root `values` has filled in.

    A text that is one `${a.b}` and nothing else takes the value's own type, so that numbers stay numbers.
    What a given root lacks, and what is neither text nor a number, is a fault of the result.
    """
    faults: list[Fault] = []
    filled = _filled(document, values, document.value, (), faults)
    return replace(document, value=filled, faults=(*document.faults, *faults))


def _wrong(match: re.Match[str], roots: tuple[str, ...]) -> tuple[str, str, str] | None:
    name, closed = match[1], match[2]
    if not closed:
        return f"{shown(match[0])} is not closed", "", "end it with }"
    if not _NAME.match(name):
        return f"{shown(match[0])} is not a name", "it is names with dots between", "write ${a.b}"
    root, dot, _ = name.partition(".")
    if root not in roots:
        why, do = name_hint(root, roots)
        return f"{shown(match[0])} begins with an unknown name", why, do
    if (root == "repo") == bool(dot):
        example = "${repo}" if root == "repo" else f"${{{root}.name}}"
        return f"{shown(match[0])} is not a value", f"it is written {example}", f"write {example}"
    return None


def _filled(
    document: Document, values: Mapping[str, Any], value: Any, path: KeyPath, faults: list[Fault]
) -> Any:
    if isinstance(value, dict):
        return {
            key: _filled(document, values, item, (*path, key), faults)
            for key, item in value.items()
        }
    if isinstance(value, tuple):
        return tuple(
            _filled(document, values, item, (*path, index), faults)
            for index, item in enumerate(value)
        )
    if not isinstance(value, str) or "${" not in value:
        return value
    try:
        return _fill_text(value, values)
    except LookupError as error:
        mark = document.positions.value(path)
        why = "the name is misspelt, or the source does not record it"
        faults.append(Fault(mark, str(error.args[0]), why, "write the value itself"))
        return value


def _fill_text(text: str, values: Mapping[str, Any]) -> Any:
    whole = _OPENING.fullmatch(text)
    if whole is not None:
        return _look_up(whole[1], values, text)
    return _OPENING.sub(lambda match: str(_look_up(match[1], values, match[0])), text)


def _look_up(name: str, values: Mapping[str, Any], written: str) -> Any:
    root, *rest = name.split(".")
    if root not in values:
        return written
    found: Any = values[root]
    for part in rest:
        if not isinstance(found, Mapping) or part not in found:
            raise LookupError(f"{shown(written)} has no value")
        found = found[part]
    if isinstance(found, str | int | float) and not isinstance(found, bool):
        return found
    raise LookupError(f"{shown(written)} is neither text nor a number")
