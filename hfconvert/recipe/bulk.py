"""The bulk file: which repositories, by which recipe, within which limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic.config import JsonDict

from hfconvert.recipe.document import Document, compose
from hfconvert.recipe.faults import Fault, RefusedError, shown
from hfconvert.recipe.loading import read_root, read_text, recipe_from
from hfconvert.recipe.location import Repo
from hfconvert.recipe.model import Count, Model, Shape, Text
from hfconvert.recipe.models import Recipe, RecipeBody, Root, Version
from hfconvert.recipe.overrides import override
from hfconvert.recipe.placeholders import BULK_ROOTS, fill_in, placeholder_faults
from hfconvert.recipe.positions import KeyPath
from hfconvert.recipe.rules import rule_faults
from hfconvert.recipe.sizes import Bytes, Size, Span

_SOURCES = ("org", "repos", "collection")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+(Z|[+-][0-9:]+)?)?\Z")


def load_bulk(path: Path, overrides: Sequence[str] = ()) -> Bulk:
    """Read a bulk file; as `hfconvert.recipe.load` reads a recipe, with the same errors."""
    return parse_bulk(read_text(path), str(path), overrides)


def parse_bulk(text: str, name: str, overrides: Sequence[str] = ()) -> Bulk:
    """Read a bulk file from text; `name` is shown in positions, and is where paths start from."""
    document = override(compose(text, name), overrides)
    faults = [*placeholder_faults(document, BULK_ROOTS), *_rules(document)]
    return read_root(Bulk, document, Path(name).parent, faults)


def recipe_for(bulk: Bulk, path: KeyPath, values: Mapping[str, Any]) -> Recipe:
    """The recipe at a path of a bulk file, `("recipe",)` or `("rules", 0, "recipe")`, for one repository.

    `values` fill in `${...}`: `{"repo": "org/model", "adapter": {"base": ...}}`. Positions are those in the
    bulk file. Raises UserError as `hfconvert.recipe.substitute` does.
    """
    value: Any = bulk.document.value
    for part in path:
        value = value[part]
    document = Document(
        name=bulk.document.name,
        value={"version": 1, **value},
        positions=bulk.document.positions.below(path),
    )
    return recipe_from(fill_in(document, values), bulk.base)


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _date(text: str) -> str:
    if not _DATE.match(text):
        raise RefusedError(f"{shown(text)} is not a date", do="write 2026-01-31")
    return text


OneOrMore = Annotated[
    tuple[Text, ...],
    Field(min_length=1),
    BeforeValidator(_listed, json_schema_input_type=Text | tuple[Text, ...]),
]
"""A text or a list of texts."""

Date = Annotated[Text, AfterValidator(_date), Shape({"type": "string"})]
"""A day or a time, as ISO 8601 writes it."""


class Select(Model):
    """Which repositories; all that is given must hold."""

    library: OneOrMore | None = Field(None, description="Library names: transformers, ...")
    tags: OneOrMore | None = Field(None, description="Tags that a repository must have, all.")
    has: OneOrMore | None = Field(None, description="Globs of files that must be there, each.")
    lacks: OneOrMore | None = Field(None, description="Globs of files that must not be there.")
    pattern: OneOrMore | None = Field(None, description="Patterns of repository ids, any.")
    exclude: OneOrMore | None = Field(None, description="Patterns of repository ids left out.")
    updated_since: Date | None = Field(None, description="Changed on or after this day.")
    max_bytes: Bytes | None = Field(None, description="The most bytes of weights.")


class InlineRecipe(RecipeBody):
    """A recipe inside a bulk file, whose version it shares."""

    version: Version = Field(1, description="The version of the recipe's form: 1.")


class Rule(Model):
    """A recipe for the repositories that match."""

    when: Select = Field(description="As `select`.")
    recipe: InlineRecipe = Field(description="A recipe, with ${repo} and ${adapter.base}.")


class Limits(Model):
    """What a bulk run may use."""

    parallel: Count = Field(1, description="Repositories at a time.")
    memory: Size | None = Field(None, description="Memory of all together.")
    disk: Size | None = Field(None, description="Disk of all together.")
    bytes_per_run: Bytes | None = Field(None, description="The most bytes read in one run.")
    commits_per_hour: Count | None = Field(None, description="The most commits in an hour.")
    deadline: Span | None = Field(None, description="Start nothing after this span: 5h.")


class OptOut(Model):
    """How the owner of a repository says no."""

    tag: Text | None = Field(None, description="A tag of the repository.")
    file: Text | None = Field(None, description="A file in the repository.")


def _only(key: str, keys: tuple[str, ...]) -> JsonDict:
    empty: JsonDict = {"type": "null"}
    properties: JsonDict = {other: dict(empty) for other in keys if other != key}
    properties[key] = {"not": empty}
    return {"required": [key], "properties": properties}


class Bulk(Root):
    """A bulk file."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {"oneOf": [_only(key, _SOURCES) for key in _SOURCES]},
                {"oneOf": [_only(key, ("recipe", "rules")) for key in ("recipe", "rules")]},
            ]
        }
    )

    version: Version = Field(description="The version of the bulk file's form: 1.")
    org: Text | None = Field(None, description="Every repository of an organisation or user.")
    repos: Annotated[tuple[Repo, ...], Field(min_length=1)] | None = Field(
        None, description="These repositories."
    )
    collection: Text | None = Field(None, description="Those of a collection: org/name-id.")
    select: Select = Field(default_factory=Select, description="Which of them.")
    recipe: InlineRecipe | None = Field(
        None, description="A recipe, with ${repo} and ${adapter.base}."
    )
    rules: Annotated[tuple[Rule, ...], Field(min_length=1)] | None = Field(
        None, description="Recipes by condition; the first that matches wins."
    )
    limits: Limits = Field(default_factory=Limits, description="What the run may use.")
    engine: Literal["local", "ray"] = Field("local", description="What runs the conversions.")
    opt_out: OptOut = Field(default_factory=OptOut, description="How owners say no.")


def _rules(document: Document) -> Iterator[Fault]:
    if not isinstance(document.value, Mapping):
        return
    yield from _exactly_one(document, _SOURCES)
    yield from _exactly_one(document, ("recipe", "rules"))
    for path in _recipe_paths(document.value):
        yield from rule_faults(document, path)


def _recipe_paths(bulk: Mapping[str, Any]) -> Iterator[KeyPath]:
    yield ("recipe",)
    rules = bulk.get("rules")
    for index in range(len(rules) if isinstance(rules, tuple) else 0):
        yield ("rules", index, "recipe")


def _exactly_one(document: Document, keys: tuple[str, ...]) -> Iterator[Fault]:
    given = [key for key in keys if document.value.get(key) is not None]
    listed = " or ".join(f"`{key}`" for key in keys)
    if not given:
        mark = document.positions.key(())
        yield Fault(mark, f"none of {listed} is given", "", f"add {listed}")
    for key in given[1:]:
        mark = document.positions.key((key,))
        yield Fault(mark, f"{shown(key)} stands beside {shown(given[0])}", "", "remove one of them")
