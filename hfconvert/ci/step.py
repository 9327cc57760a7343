"""The step of a workflow: inputs, trust, tokens, every recipe; then annotations, summary, outputs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hfconvert.ci.annotations import Annotation, annotated, notice, shown
from hfconvert.ci.commands import grouped, mask, obeying_nothing
from hfconvert.ci.files import write_outputs, write_summary
from hfconvert.ci.inputs import FailOn, Inputs, read_inputs
from hfconvert.ci.jobs import Outcome, Rules, deferred, labels, stopped, work
from hfconvert.ci.outputs import outputs_of, write_report
from hfconvert.ci.surroundings import secrets_of, sign_in, sign_out, work_in
from hfconvert.ci.trust import stranger
from hfconvert.console import Console
from hfconvert.errors import Exit, UserError
from hfconvert.report.summary import plain, summary

MOST_SECONDS = 5 * 3600  # of a job that GitHub ends after six hours; nothing is begun after that


def act(
    environment: MutableMapping[str, str],
    console: Console,
    now: Callable[[], float] = time.monotonic,
) -> Exit:
    """Do what the environment of a step asks for; the exit code of the step, by its input `fail-on`.

    Outputs say `failed` from the first moment on, until something better is known: also of a step that is
    killed.
    """
    began = now()
    write_outputs(environment, outputs_of((), ""))
    for secret in secrets_of(environment):
        for line in mask(secret):
            console.command(line)
    place = work_in(environment)
    try:
        inputs = read_inputs(environment)
    except UserError as error:
        wrong = (stopped("inputs", error),)
        return _finish(_Step(place, Path.cwd(), "error", (), wrong), environment, console)
    top = Path(environment.get("GITHUB_WORKSPACE") or Path.cwd())
    os.chdir(inputs.folder)
    rules, said = _rules(inputs, place, top, environment)
    outcomes = tuple(_outcomes(rules, console, lambda: now() - began))
    return _finish(_Step(place, top, inputs.fail_on, said, outcomes), environment, console)


@dataclass(frozen=True, slots=True)
class _Step:
    """A step that is done: where its report goes, where the repository is, and what came of everything."""

    place: Path
    top: Path
    fail_on: FailOn
    said: tuple[Annotation, ...]
    outcomes: tuple[Outcome, ...]


def _rules(
    inputs: Inputs, place: Path, top: Path, environment: MutableMapping[str, str]
) -> tuple[Rules, tuple[Annotation, ...]]:
    """Whose code it is, and with it whether tokens count; what is to be said of that."""
    rules = Rules(inputs=inputs, stranger=stranger(environment), place=place, top=top)
    if not rules.stranger:
        sign_in(inputs, environment)
        return rules, ()
    ignored = ["token"] if sign_out(environment) else []
    ignored += ["oidc-resource"] if inputs.oidc_resource else []
    ignored += ["allow-remote-code"] if inputs.allow_remote_code else []
    if not ignored:
        return rules, ()
    said = f"{', '.join(ignored)} ignored: {rules.stranger}"
    return rules, (notice("hfconvert", said),)


def _outcomes(rules: Rules, console: Console, taken: Callable[[], float]) -> Iterator[Outcome]:
    for number, label in enumerate(labels(rules.inputs)):
        if number and taken() > MOST_SECONDS:
            yield deferred(label)
            continue
        with grouped(console, f"hfconvert {label}"), obeying_nothing(console):
            outcome = work(label, rules, console)
        yield outcome


def _finish(step: _Step, environment: Mapping[str, str], console: Console) -> Exit:
    """Tell people on the page of the run, later steps by outputs, and the runner by the exit code."""
    report = step.place / "report.json"
    write_report(report, step.outcomes)
    with obeying_nothing(console):
        for outcome in step.outcomes:
            console.log(outcome.text)
    recipes = [one.label for one in step.outcomes]
    found = annotated(step.outcomes, recipes, step.top)
    for line in shown((*step.said, *found)):
        console.command(line)
    write_summary(environment, "\n".join(_summaries(step.outcomes)))
    write_outputs(environment, outputs_of(step.outcomes, str(report)))
    return _code(step)


def _summaries(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        yield f"### hfconvert {plain(outcome.label)}\n\n{summary(outcome.document)}"


def _code(step: _Step) -> Exit:
    """The code of the worst outcome; with `fail-on: warning` warnings count, with `never` nothing does."""
    if step.fail_on == "never":
        return Exit.OK
    code = max(one.code for one in step.outcomes)
    levels = {one["level"] for outcome in step.outcomes for one in outcome.document["findings"]}
    warned = step.fail_on == "warning" and "warning" in levels
    return code or (Exit.VALUES if warned else Exit.OK)
