"""`family: {name: hf-v4-v5}`: what transformers itself renamed and rearranged between its versions 4 and 5.

The names come from the registry of the installed transformers, which is asked in a process of its own:
planning stays without torch. Options: `to: v5` (from the files of a repository to the layout in memory, the
default) or `to: v4` (back to the layout of files).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from hfconvert.errors import Problem, UserError, raise_any, recipe_problem
from hfconvert.findings import Finding, warning
from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.families.resolve import Values
from hfconvert.keymap.fold import listed
from hfconvert.keymap.made import UnfitError, plain
from hfconvert.keymap.move import invalid
from hfconvert.recipe.faults import name_hint
from hfconvert.recipe.steps import FamilyOptions
from hfconvert.tensors.checkpoint import Checkpoint, Entry
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.reorder import Permute, Take
from hfconvert.tensors.simplify import select, side_by_side, stacked, window

OPTIONS = ("to",)
DIRECTIONS = ("v5", "v4")
_NEEDED = ("torch", "transformers")


def of_transformers(family: FamilyOptions, values: Values, where: Where) -> StepFunction:
    """The step. UserError (exit 2) where an option is wrong, or configuration or transformers are missing."""
    raise_any(_wrong(family, values, where))
    to = str(family.options.get("to", DIRECTIONS[0]))

    def step(checkpoint: Checkpoint) -> Applied:
        tensors = {name: list(entry.tensor.spec.shape) for name, entry in checkpoint.items()}
        answered = ask({"config": dict(values.config), "tensors": tensors, "to": to})
        if "error" in answered or answered["unsupported"]:
            error = answered.get("error") or answered["unsupported"][0]
            raise UserError(_no_answer(str(error), where()))
        label = f"{family.name} {to}"
        maker = _Maker(checkpoint, label)
        recipes: dict[str, list[Any]] = answered["tensors"]
        raise_any([*invalid(recipes, where()), *_unfit(maker, recipes, where())])
        entries = {name: maker.entry(name, recipe) for name, recipe in recipes.items()}
        findings = tuple(_strangers(answered["strangers"], where()))
        return Applied(checkpoint.with_entries(entries), findings)

    return step


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes tensors as the answer says."""

    checkpoint: Checkpoint
    label: str

    def entry(self, name: str, recipe: list[Any]) -> Entry:
        """The tensor under its new name; the entry itself where nothing about it is new."""
        used = [self.checkpoint[source] for source in dict.fromkeys(_sources(recipe))]
        if recipe == ["source", name]:
            return used[0]
        sources = tuple(dict.fromkeys(one for entry in used for one in entry.sources))
        steps = tuple(dict.fromkeys(one for entry in used for one in entry.steps))
        return Entry(self.tensor(recipe), sources, (*steps, self.label))

    def tensor(self, recipe: list[Any]) -> LazyTensor:
        """The composition of nodes for a recipe."""
        kind, *rest = recipe
        if kind == "source":
            return self.checkpoint[rest[0]].tensor
        if kind in ("stack", "concat"):
            put = stacked if kind == "stack" else side_by_side
            return put([self.tensor(part) for part in rest[1]], rest[0])
        inner = self.tensor(rest[-1])
        if kind == "window":
            return window(inner, rest[0], rest[1], rest[2])
        if kind == "select":
            return select(inner, rest[0], rest[1])
        if kind == "permute":
            return Permute(inner, tuple(rest[0]))
        return Take(inner, rest[0], np.array(rest[1], dtype=np.int64))


def _unfit(maker: _Maker, recipes: Mapping[str, list[Any]], subject: str) -> Iterator[Problem]:
    """Tensors that would be rearranged and cannot be."""
    for name, recipe in recipes.items():
        if recipe[0] == "source":
            continue
        try:
            for source in _sources(recipe):
                plain(maker.checkpoint[source].tensor)
        except UnfitError as error:
            what, why, do = error.beats
            yield recipe_problem(f"`{name}`: {what}", why=why, do=do, subject=subject)


def _sources(recipe: list[Any]) -> list[str]:
    if recipe[0] == "source":
        return [recipe[1]]
    parts = recipe[-1] if recipe[0] in ("stack", "concat") else [recipe[-1]]
    return [name for part in parts for name in _sources(part)]


def missing() -> list[str]:
    """Which of the libraries that know the names are not installed; imports none of them."""
    return [name for name in _NEEDED if name not in sys.modules and not find_spec(name)]


def ask(request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of `transformers_names`: here where torch is loaded anyway, else of a child."""
    if "torch" in sys.modules:
        from hfconvert.keymap.families.transformers_names import answer  # noqa: PLC0415 - torch

        return answer(request)
    # The path of modules is ours: the working directory, which may hold anything, is not on it.
    script = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        "from hfconvert.keymap.families.transformers_names import main; main()"
    )
    child = subprocess.run(  # noqa: S603 - our own interpreter and our own module
        [sys.executable, "-c", script],
        input=json.dumps(request).encode(),
        capture_output=True,
        check=False,
    )
    lines = child.stdout.splitlines()
    if child.returncode or not lines:
        said = child.stderr.decode(errors="replace").strip().splitlines()
        return {"error": said[-1] if said else f"it ended with {child.returncode}"}
    answered: dict[str, Any] = json.loads(lines[-1])
    return answered


def _wrong(family: FamilyOptions, values: Values, where: Where) -> list[Problem]:
    problems = []
    for name in family.options:
        if name not in OPTIONS:
            why, do = name_hint(name, OPTIONS)
            what = f"the family `{family.name}` has no option `{name}`"
            problems.append(recipe_problem(what, why=why, do=do, subject=where(name)))
    to = family.options.get("to", DIRECTIONS[0])
    if to not in DIRECTIONS:
        why, do = name_hint(str(to), DIRECTIONS)
        problems.append(recipe_problem(f"`to` cannot be {to}", why=why, do=do, subject=where("to")))
    if "model_type" not in values.config:
        what = f"`{family.name}` needs the source's config.json with its model_type"
        why = "transformers registers what it renames by model"
        do = "put the configuration beside the weights, or name source.assets_from"
        problems.append(recipe_problem(what, why=why, do=do, subject=where()))
    absent = missing()
    if absent:
        what = f"`{family.name}` needs {' and '.join(absent)}"
        why = "it asks the installed transformers what it renamed"
        do = "pip install 'hfconvert[models]', or write the steps out"
        problems.append(recipe_problem(what, why=why, do=do, subject=where()))
    return problems


def _no_answer(error: str, subject: str) -> Problem:
    return recipe_problem(
        f"transformers did not say what it renamed: {error}",
        why="the installed version does not know this model, or does it in a way of its own",
        do="install a version that has the model, or write the steps out",
        subject=subject,
        check="names",
    )


def _strangers(names: list[str], subject: str) -> list[Finding]:
    if not names:
        return []
    message = f"{len(names)} names are none of the model's: {listed(names)}"
    hint = "transformers ignores them when it loads; drop them, or look whether the model is right"
    return [warning("names", subject, message, hint)]
