"""The result of a recipe, where a recipe is given: it is what the recipe would make now, value by value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hfconvert.console import Console
from hfconvert.errors import Problem, values_problem
from hfconvert.findings import Finding
from hfconvert.gate.tree import Tree, WeightSet
from hfconvert.making.results import known_files, output_path
from hfconvert.making.work import read_record
from hfconvert.planning.digest import identify
from hfconvert.planning.plan import Plan, make_plan
from hfconvert.recipe import Recipe
from hfconvert.report.model import Report
from hfconvert.sourcing import look_at_source
from hfconvert.verifying.verify import verify


@dataclass(frozen=True, slots=True)
class Held:
    """A recipe held against its result. `elsewhere` says where that is, if it cannot be judged by itself."""

    planned: Plan
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()
    elsewhere: str = ""


def hold(recipe: Recipe, console: Console) -> Held:
    """Plan the recipe, and compare its result with the plan.

    The result is the output folder, with the digest that the recipe has now; else the other repository that
    the recipe publishes to. UserError where the recipe cannot be planned.
    """
    source = look_at_source(recipe)
    planned = make_plan(source.recipe, source.origin)
    if recipe.publish is not None and recipe.output.path is None:
        into = recipe.publish.repo or recipe.source.repo or ""
        if into == recipe.source.repo:
            return Held(planned, elsewhere=f"the result belongs into {into} itself")
        return _compared(recipe, planned, into, console)
    output = output_path(recipe, planned)
    stale = tuple(_stale(planned, output))
    return (
        Held(planned, stale)
        if stale
        else _compared(recipe, planned, str(output.absolute()), console)
    )


def outside(tree: Tree, planned: Plan) -> tuple[WeightSet, ...]:
    """The pickled weights of the tree that are not what the plan reads: its result speaks for those."""
    read = {file.path.resolve() for file in planned.sources}
    return tuple(
        one for one in tree.pickled if not {file.file.path.resolve() for file in one.files} <= read
    )


def _compared(recipe: Recipe, planned: Plan, result: str, console: Console) -> Held:
    report = verify(_place_of(recipe, planned), result, recipe, console)
    problems = (_differs(report, result),) if report.status == "failed" else ()
    return Held(planned, problems, report.findings)


def _place_of(recipe: Recipe, planned: Plan) -> str:
    if planned.origin is not None:
        return f"{planned.origin.repo}@{planned.origin.commit}"
    return str((recipe.source.path or Path()).absolute())


def _stale(planned: Plan, output: Path) -> Iterator[Problem]:
    record = read_record(output)
    if record is None:
        yield _problem(
            output,
            "the result of the recipe is not there",
            "it was not committed, or was made without hfconvert",
        )
        return
    digest = planned.identified(identify(planned.files, known_files(planned))).digest
    if record.get("digest") != digest:
        yield _problem(
            output,
            "the result is stale: the recipe would make another one now",
            "source or recipe changed after the conversion",
        )


def _differs(report: Report, result: str) -> Problem:
    failed = [check for check in report.checks if check.status == "fail"]
    return _problem(
        result,
        "the result is not what the recipe makes",
        "; ".join(f"{check.name}: {check.detail}" for check in failed),
    )


def _problem(subject: object, what: str, why: str) -> Problem:
    return values_problem(
        what,
        why=why,
        do="run the recipe with `hfconvert run`, and publish the whole result",
        subject=str(subject),
        check="recipe",
    )
