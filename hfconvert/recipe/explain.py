"""What pydantic found wrong, in words of the recipe, at its place, with the nearest valid name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from hfconvert.recipe.document import Document
from hfconvert.recipe.faults import Fault, RefusedError, name_hint, shown
from hfconvert.recipe.positions import KeyPath

_MOST_EXPLAINED = 1000  # the search for the nearest name takes its time
_ABOUT_KEYS = {"extra_forbidden", "missing"}
_KINDS = {
    "string_type": ("text", "write it in quotes"),
    "bool_type": ("true or false", "write true or false; yes, no, on and off are text here"),
    "int_type": ("a whole number", "write digits without quotes"),
    "float_type": ("a number", "write digits without quotes"),
    "tuple_type": ("a list", "write it in brackets: [a, b]"),
    "dict_type": ("a mapping", "write keys and values: {key: value}"),
    "model_type": ("a mapping", "write keys and values: {key: value}"),
}
_MEND_ANY = "write a value within the limit"
_MEND = {
    "too_short": "add what is missing, or remove the key",
    "too_long": "remove what is too much",
}


def explain(error: ValidationError, model: type[BaseModel], document: Document) -> list[Fault]:
    """The faults behind a ValidationError of `model`; none about what could not be read at all."""
    faults: list[Fault] = []
    for detail in error.errors(include_url=False):
        path = document.positions.present(detail["loc"])
        if _is_unread(path, document) or _is_echo(detail):
            continue
        if len(faults) < _MOST_EXPLAINED:
            faults.append(_fault(detail, path, model, document))
        else:
            faults.append(Fault(document.positions.value(path), str(detail["msg"]), "", "mend it"))
    return faults


def valid_names(model: type[BaseModel], path: Iterable[str | int]) -> list[str]:
    """The keys that a mapping at a path of the recipe takes."""
    models: list[type[BaseModel]] = [model]
    for part in path:
        if isinstance(part, str):  # items of a list: their models are known already
            models = [child for parent in models for child in _children(parent, part)]
    return list(dict.fromkeys(name for found in models for name in _field_names(found)))


def _is_unread(path: KeyPath, document: Document) -> bool:
    return any(path[: len(unread)] == unread for unread in document.unread)


def _is_echo(detail: Any) -> bool:
    """Whether a list only counts as too short because its items were refused."""
    context = detail.get("ctx", {})
    return bool(detail["type"] == "too_short" and len(detail["input"]) >= context["min_length"])


def _fault(detail: Any, path: KeyPath, model: type[BaseModel], document: Document) -> Fault:
    what, why, do = _beats(detail, path, model)
    about_key = detail["type"] in _ABOUT_KEYS or detail["loc"][-1:] == ("[key]",)
    positions = document.positions
    return Fault(positions.key(path) if about_key else positions.value(path), what, why, do)


def _beats(detail: Any, path: KeyPath, model: type[BaseModel]) -> tuple[str, str, str]:
    kind = detail["type"]
    if kind == "value_error":
        return _refused(detail, path)
    if kind == "extra_forbidden":
        name = str(path[-1]) if path else ""
        return (f"unknown key {shown(name)}", *_key_hint(name, path[:-1], model))
    if kind == "missing":
        name = str(detail["loc"][-1])
        return f"{shown(name)} is missing", "", f"add `{name}:`"
    if kind == "literal_error":
        return _choice(detail, path)
    if kind in _KINDS:
        wanted, do = _KINDS[kind]
        return f"{_named(path)} must be {wanted}, not {shown(detail['input'])}", "", do
    return _limit(detail, path)


def _key_hint(name: str, path: KeyPath, model: type[BaseModel]) -> tuple[str, str]:
    valid = valid_names(model, path)
    homes = [home for home in valid if name in valid_names(model, (*path, home))]
    if homes:
        return f"it belongs under `{homes[0]}`", f"move it under `{homes[0]}`"
    return name_hint(name, valid)


def _named(path: KeyPath) -> str:
    """What a path leads to, as the subject of a sentence."""
    if not path:
        return "the file"
    if isinstance(path[-1], int):
        return f"item {path[-1] + 1} of {_named(path[:-1])}"
    return shown(path[-1])


def _refused(detail: Any, path: KeyPath) -> tuple[str, str, str]:
    error = detail["ctx"]["error"]
    if isinstance(error, RefusedError):
        what = f"{_named(path)} {error.what}" if error.what.startswith("must ") else error.what
        return what, error.why, error.do
    return str(error), "", "mend the value"


def _choice(detail: Any, path: KeyPath) -> tuple[str, str, str]:
    choices = re.findall(r"'([^']*)'", detail["ctx"]["expected"])
    value = detail["input"]
    why, do = name_hint(value, choices) if isinstance(value, str) else ("", "")
    return (
        f"{_named(path)} cannot be {shown(value)}",
        why,
        do or f"use one of: {', '.join(choices)}",
    )


def _limit(detail: Any, path: KeyPath) -> tuple[str, str, str]:
    message = re.sub(r"^(Input|String|Tuple|Dictionary|Value) should", "must", str(detail["msg"]))
    plain = message.replace(" after validation", "")
    given = f"it is {shown(detail['input'])}"
    return (
        f"{_named(path)} {plain[0].lower()}{plain[1:]}",
        given,
        _MEND.get(detail["type"], _MEND_ANY),
    )


def _children(model: type[BaseModel], part: str) -> Iterator[type[BaseModel]]:
    for name, field in model.model_fields.items():
        if part == (field.alias or name):
            yield from _models_in(field.annotation)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that an annotation names, those of items and of union members included."""
    # On Python 3.10 an alias such as tuple[int, ...] is an instance of type, and no class.
    is_class = isinstance(annotation, type) and get_origin(annotation) is None
    if is_class and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _field_names(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield field.alias or name
