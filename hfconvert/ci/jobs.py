"""The recipes of a step, and what each comes to: converted, planned, judged, or stopped with its problems."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hfconvert.ci.inputs import Inputs
from hfconvert.console import Console
from hfconvert.errors import Exit, Problem, UserError, foreseen, raise_any, recipe_problem
from hfconvert.findings import Finding, info
from hfconvert.making.results import with_recorded_checks
from hfconvert.preview import dry_run
from hfconvert.proving.models import Allowed
from hfconvert.recipe import Recipe, parse_location
from hfconvert.recipes import recipe_of
from hfconvert.report.documents import failed_report_document, report_document
from hfconvert.report.model import Report
from hfconvert.report.text import check_lines, report_text
from hfconvert.visible import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for every recipe of a step. `stranger` says whose code it may be, empty where it is the own.

    `place` is a folder for results that were meant to be published and are not, `top` that of the repository.
    """

    inputs: Inputs
    stranger: str
    place: Path
    top: Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a recipe: its report as a document and as text, and the exit code of a run by itself."""

    label: str
    document: Mapping[str, Any]
    text: str
    code: Exit

    @property
    def status(self) -> str:
        """As the document has it; `deferred` where the recipe was not begun."""
        return str(self.document["status"])


def labels(inputs: Inputs) -> tuple[str, ...]:
    """What the step works on, in order: recipes, or the one source, or to be judged: this folder."""
    return inputs.recipes or (inputs.source or ".",)


def load(inputs: Inputs, label: str) -> Recipe:
    """The recipe that is to be run, with what the inputs change of it. UserError."""
    source = inputs.source if inputs.recipes else ""
    overrides = (*inputs.overrides, *_source(source), *_publish(inputs))
    return recipe_of(label, overrides)


def work(label: str, rules: Rules, console: Console) -> Outcome:
    """Do what the step asks for with one recipe; what a user can meet is an outcome too."""
    from hfconvert.run import ChecksFailedError  # noqa: PLC0415 - reads much

    try:
        raise_any(_elsewhere(label, rules))
        report = (_judge if rules.inputs.mode == "check" else _run)(label, rules, console)
        code = Exit.VALUES if report.status == "failed" else Exit.OK
    except ChecksFailedError as failed:
        report, code = failed.report, Exit.VALUES
    except Exception as error:  # noqa: BLE001 - what is no error of a user passes on
        return stopped(label, foreseen(error))
    text = report_text(report) if report.plan else _judged_text(label, report)
    return Outcome(label, report_document(report), text, code)


def _elsewhere(label: str, rules: Rules) -> Iterator[Problem]:
    """A stranger's recipe that leads out of the repository: messages would quote a file of the runner."""
    inside = Path(label).resolve().is_relative_to(rules.top.resolve())
    if rules.stranger and rules.inputs.recipes and not inside:
        yield recipe_problem(
            "the recipe lies outside of the repository",
            why=f"its path or a link leads there, and {rules.stranger}",
            do="name a recipe of the repository",
            subject=label,
        )


def stopped(label: str, error: UserError) -> Outcome:
    """A recipe, or inputs, with which nothing could be done."""
    text = "\n".join(f"error: {problem}" for problem in error.problems)
    return Outcome(label, failed_report_document(error), text, error.exit)


def deferred(label: str) -> Outcome:
    """A recipe that is not begun, since the time of the job is nearly over."""
    document = {**failed_report_document(UserError()), "status": "deferred"}
    text = f"deferred  {label}: the time of this job is nearly over; run it again"
    return Outcome(label, document, text, Exit.OK)


def _run(label: str, rules: Rules, console: Console) -> Report:
    from hfconvert.run import run  # noqa: PLC0415 - reads much

    place = rules.place / f"result-{label.replace('/', '--')}"
    recipe, said = _permitted(load(rules.inputs, label), rules, place)
    if rules.inputs.dry_run:
        report = _rehearsed(recipe)
    else:
        allowed = Allowed(rules.inputs.allow_remote_code and not rules.stranger)
        report = run(recipe, console, allowed)
    if report.output:
        report = with_recorded_checks(report, Path(report.output))
    return replace(report, findings=(*report.findings, *said))


def _rehearsed(recipe: Recipe) -> Report:
    """The plan, after asking whether the result may be published, where it is to be."""
    if recipe.publish is None:
        return dry_run(recipe)
    from hfconvert.publishing.targets import rehearse  # noqa: PLC0415 - huggingface_hub

    return rehearse(recipe, recipe.publish)


def _permitted(recipe: Recipe, rules: Rules, place: Path) -> tuple[Recipe, tuple[Finding, ...]]:
    """The recipe; with its result in `place`, and not published, where this job may not, which is said."""
    if recipe.publish is None:
        return recipe, ()
    reason, hint = rules.stranger, "after it is merged, the same step publishes"
    if not reason:
        from hfconvert.hub.client import can_sign_in  # noqa: PLC0415 - huggingface_hub

        if can_sign_in():
            return recipe, ()
        reason, hint = "there is no token", "give the input `token`, or set HF_TOKEN for the job"
    target = recipe.publish.repo or recipe.source.repo or ""
    said = info("publish", target, f"nothing is published: {reason}", hint)
    return _kept(recipe, place), (said,)


def _kept(recipe: Recipe, place: Path) -> Recipe:
    """The recipe with its result in a folder, in place of the Hub."""
    path = recipe.output.path or place
    output = recipe.output.model_copy(update={"path": path, "disk": "normal"})
    return recipe.model_copy(update={"publish": None, "output": output})


def _judge(label: str, rules: Rules, console: Console) -> Report:
    """The gate: the source, else the recipe's repository, else this folder; and what the recipe made."""
    from hfconvert.gate import check  # noqa: PLC0415 - reads much

    inputs = rules.inputs
    recipe = recipe_of(label, inputs.overrides) if inputs.recipes else None
    return check(inputs.source or _repository(recipe) or ".", recipe, console)


def _repository(recipe: Recipe | None) -> str:
    """Where a recipe reads from the Hub; empty where it reads files of the job."""
    source = recipe.source if recipe else None
    return f"{source.repo}@{source.revision}" if source and source.repo else ""


def _judged_text(label: str, report: Report) -> str:
    """The rules that were judged, then what breaks them."""
    said = (f"  {one.level}: {one.subject}: {one.message}" for one in report.findings)
    return "\n".join(
        map(one_line, (f"{report.status}  {label}", *check_lines(report.checks), *said))
    )


def _source(text: str) -> Iterator[str]:
    """The source of the step in place of the recipe's own."""
    if not text:
        return
    location = parse_location(text, subject="source")
    path = None if location.path is None else str(location.path.absolute())
    yield f"source.repo={json.dumps(location.repo)}"
    yield f"source.path={json.dumps(path)}"
    yield f"source.revision={json.dumps(location.revision or 'main')}"


def _publish(inputs: Inputs) -> Iterator[str]:
    if inputs.publish == "none":
        yield "publish=null"
    elif inputs.publish:
        yield f"publish.how={inputs.publish}"
