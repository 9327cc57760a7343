"""What the recipe's contract names and this version does not do yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hfconvert.errors import Problem, recipe_problem
from hfconvert.recipe.filling import unfilled
from hfconvert.recipe.models import Recipe

# Remove a line, or add a value to `built`, when the feature lands.


@dataclass(frozen=True, slots=True)
class _Gap:
    """A field of which only the values `built` work; `what` says what does not."""

    path: tuple[str, ...]
    get: Callable[[Recipe], Any]
    what: str
    built: tuple[Any, ...] = (None,)


_FIELDS = (
    _Gap(
        ("source", "format"),
        lambda r: r.source.format,
        "this format",
        ("auto", "torch", "safetensors", "lightning", "ranks"),
    ),
    _Gap(("source", "checkpoint"), lambda r: r.source.checkpoint, "choosing a checkpoint"),
)


def not_built(recipe: Recipe) -> list[Problem]:
    """A problem (exit 2) for everything in the recipe that this version cannot do, at its position.

    A command that ignores a part asks about the recipe without it:
    `not_built(recipe.model_copy(update={"publish": None}))`.
    """
    return [
        recipe_problem(
            f"{what} is not built yet",
            why="the recipe's form is complete, this version of hfconvert is not",
            do="leave it out, or wait for a later version",
            subject=recipe.position(*path),
        )
        for path, what in _gaps(recipe)
    ]


def _gaps(recipe: Recipe) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for gap in _FIELDS:
        if gap.get(recipe) not in gap.built:
            yield gap.path, gap.what
    for path, name in unfilled(recipe):
        yield path, f"filling in `${{{name}}}`"
