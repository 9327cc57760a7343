"""The inputs of the action, from the environment variables `HFC_*`, as one frozen value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from hfconvert.errors import Problem, UserError, raise_any, recipe_problem
from hfconvert.recipe.location import parse_location
from hfconvert.visible import one_line

FailOn = Literal["error", "warning", "never"]
Mode = Literal["run", "check"]
Publish = Literal["", "pull_request", "commit", "none"]

_WORDS: Mapping[str, Sequence[str]] = {
    "mode": ("run", "check"),
    "publish": ("", "pull_request", "commit", "none"),
    "fail-on": ("error", "warning", "never"),
    "dry-run": ("false", "true"),
    "allow-remote-code": ("false", "true"),
}
_DEFAULTS: Mapping[str, str] = {"working-directory": "."} | {
    name: words[0] for name, words in _WORDS.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a step of a workflow asks for. Recipes and overrides stood one a line; the token is in no text."""

    recipes: tuple[str, ...]
    source: str
    overrides: tuple[str, ...]
    publish: Publish
    mode: Mode
    dry_run: bool
    token: str = field(repr=False)
    oidc_resource: str
    fail_on: FailOn
    allow_remote_code: bool
    folder: Path


def read_inputs(environment: Mapping[str, str]) -> Inputs:
    """The inputs; UserError (exit 2) with everything that is wrong, each named as in `action.yml`."""
    given = {name: value(environment, name) for name in (*_DEFAULTS, "source", "oidc-resource")}
    recipes = _lines(environment, "recipe")
    raise_any(_problems(given, recipes))
    return Inputs(
        recipes=recipes,
        source=given["source"],
        overrides=_lines(environment, "set"),
        publish=cast("Publish", given["publish"]),
        mode=cast("Mode", given["mode"]),
        dry_run=given["dry-run"] == "true",
        token=value(environment, "token"),
        oidc_resource=given["oidc-resource"],
        fail_on=cast("FailOn", given["fail-on"]),
        allow_remote_code=given["allow-remote-code"] == "true",
        folder=Path(given["working-directory"]),
    )


def variable(name: str) -> str:
    """The environment variable of an input: `HFC_FAIL_ON` of `fail-on`."""
    return f"HFC_{name.upper().replace('-', '_')}"


def value(environment: Mapping[str, str], name: str) -> str:
    """An input as it was given, without the space around it; its default where it is empty or absent."""
    return environment.get(variable(name), "").strip() or _DEFAULTS.get(name, "")


def _lines(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    stripped = (line.strip() for line in value(environment, name).splitlines())
    return tuple(line for line in stripped if line)


def _problems(given: Mapping[str, str], recipes: Sequence[str]) -> Iterator[Problem]:
    for name, words in _WORDS.items():
        if given[name] not in words:
            yield _unknown(name, given[name], words)
    if not Path(given["working-directory"]).is_dir():
        yield recipe_problem(
            f"there is no folder {one_line(given['working-directory'])!r}",
            why="it is misspelt, or the job did not check the repository out",
            do="name a folder, from the top of the workspace",
            subject="working-directory",
        )
    yield from _nothing_or_too_much(given, recipes)
    yield from _not_a_repository(given["oidc-resource"])


def _unknown(name: str, text: str, words: Sequence[str]) -> Problem:
    return recipe_problem(
        f"{text!r} is none of its values",
        why="it is misspelt",
        do=f"write one of: {', '.join(word for word in words if word)}",
        subject=name,
    )


def _nothing_or_too_much(given: Mapping[str, str], recipes: Sequence[str]) -> Iterator[Problem]:
    """A check needs neither of the two: then it judges the working directory."""
    source = given["source"]
    if given["mode"] == "run" and not source and not recipes:
        yield recipe_problem(
            "neither a recipe nor a source is named",
            why="both inputs are empty, perhaps an expression in the workflow that has no value",
            do="give `recipe` the path of a recipe, or `source` an org/name or a path",
            subject="recipe",
        )
    if given["mode"] == "run" and source and len(recipes) > 1:
        yield recipe_problem(
            f"one source cannot be that of {len(recipes)} recipes",
            why="`source` takes the place of the recipe's own",
            do="name one recipe, or leave `source` out",
            subject="source",
        )


def _not_a_repository(resource: str) -> Iterator[Problem]:
    """A Trusted Publisher gets a token for one repository; that of a user name only reads."""
    if not resource:
        return
    try:
        named = parse_location(resource, subject="oidc-resource")
    except UserError as error:
        yield from error.problems
        return
    if named.repo is None or named.revision:
        yield recipe_problem(
            f"{resource!r} is not the id of a repository",
            why="a Trusted Publisher gets a token for one repository of models",
            do="write org/name, where the publisher is registered",
            subject="oidc-resource",
        )
