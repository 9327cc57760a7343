"""What every model of the recipe has in common, and the scalar types of their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    StrictInt,
    StrictStr,
    Tag,
    ValidationInfo,
)
from pydantic_core import CoreSchema

from hfconvert.recipe.faults import RefusedError, shown
from hfconvert.recipe.scalars import as_written


class Model(BaseModel):
    """A part of a recipe: frozen, without unknown keys, nothing converted that was not asked for."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        defer_build=True,
        allow_inf_nan=False,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """The JSON Schema of a field's type; a copy for each field, since pydantic 2.10 writes into it."""

    schema: dict[str, Any]

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return deepcopy(self.schema)


def holds_placeholder(value: object) -> bool:
    """Whether a value is text that `substitute` has yet to fill in."""
    return isinstance(value, str) and "${" in value


def unless_placeholder(check: Callable[[str], str]) -> Callable[[str], str]:
    """A check of text that waits until every `${...}` in it is filled in."""
    return lambda text: text if holds_placeholder(text) else check(text)


def recipe_folder(info: ValidationInfo) -> Path:
    """The folder that relative paths start from: that of the recipe."""
    context: Mapping[str, Any] = info.context or {}
    base: Path = context.get("base", Path())
    return base


def _filled(text: str) -> str:
    if not text:
        raise RefusedError("must not be empty", do="write something, or remove the key")
    return text


def _placeholder(text: str) -> str:
    if not holds_placeholder(text):
        raise RefusedError(
            f"{shown(text)} is not a number", do="write digits without quotes, or ${...}"
        )
    return text


def _inside(text: str) -> str:
    if text.startswith("/") or ".." in text.split("/"):
        raise RefusedError(
            f"{shown(text)} leads out of the source",
            why="it begins with / or holds ..",
            do="write it relative to the source's folder",
        )
    return text


def _resolved(value: object, info: ValidationInfo) -> Path:
    text = as_written(value)
    if not isinstance(text, str) or not text:
        raise RefusedError(f"must be a path, not {shown(value)}", do="write a path, in quotes")
    if "\0" in text:
        raise RefusedError("a path holds a NUL character", do="remove it")
    return recipe_folder(info) / text


def _text_tag(value: object) -> str:
    return "is:text" if isinstance(value, str) else "is:number"


# Digits without quotes are text where text is wanted, exactly as they were written.
_TEXT_SCHEMA = Shape({"type": ["string", "number"], "minLength": 1})

Text = Annotated[StrictStr, BeforeValidator(as_written), AfterValidator(_filled), _TEXT_SCHEMA]
"""Text, not empty."""

Inside = Annotated[Text, AfterValidator(_inside)]
"""A path or glob within the source; never leads out of it."""

PathText = Annotated[Path, PlainValidator(_resolved), _TEXT_SCHEMA]
"""A path, written relative to the recipe."""

Placeholder = Annotated[
    StrictStr,
    AfterValidator(_placeholder),
    Shape({"type": "string", "pattern": r"\$\{[^}]+\}"}),
]
"""Text with `${...}` where a number belongs."""

Count = Annotated[
    Annotated[StrictInt, Field(ge=1), Tag("is:number")] | Annotated[Placeholder, Tag("is:text")],
    Discriminator(_text_tag),
]
"""A positive integer, or text with `${...}` until it is filled in."""

Dim = Annotated[StrictInt, Field(ge=0)]
"""A dimension, counted from the front."""

Texts = Annotated[tuple[Text, ...], Field(min_length=1)]
"""A list of texts, not empty."""

Table = Annotated[dict[Text, Text], Field(min_length=1)]
"""A mapping from text to text, not empty."""
