"""A key map over a checkpoint: its steps in order, all their problems at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from hfconvert.errors import Problem, UserError, raise_any, recipe_problem, source_problem
from hfconvert.findings import info
from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.coverage import check_coverage
from hfconvert.keymap.elements import lost_parts
from hfconvert.keymap.families.registry import of_transformers
from hfconvert.keymap.families.resolve import Values, resolve
from hfconvert.keymap.families.table import AT_RUN_TIME
from hfconvert.keymap.family import family
from hfconvert.keymap.fold import listed
from hfconvert.keymap.move import invalid
from hfconvert.keymap.ranks import unjoined
from hfconvert.keymap.steps import STEPS
from hfconvert.recipe.steps import Family, StepModel
from hfconvert.tensors.checkpoint import Checkpoint

NOTHING = Values()
MAX_NAME = 4096  # characters; matching a hostile name takes time quadratic in them


def apply(
    checkpoint: Checkpoint, key_map: Sequence[StepModel], where: Where, values: Values = NOTHING
) -> Applied:
    """The checkpoint after all the steps, with their findings and the ties that they claim.

    `where("key_map", 2, "rename")` gives a position in the recipe; `values` are what families look their
    options up in. UserError with the problems of all steps:
    one that fails leaves the checkpoint as it was for those after it, and what they find says so.
    """
    raise_any(_long_names(checkpoint))
    result = Applied(checkpoint)
    problems: list[Problem] = []
    failed = ""
    for number, step in enumerate(key_map):
        try:
            function = step_function(step, partial(where, "key_map", number), values)
        except UserError as error:
            problems.extend(error.problems)
            failed = failed or where("key_map", number)
            continue
        try:
            result = _after(result, function)
        except UserError as error:
            problems.extend(_in_doubt(error.problems, failed))
            failed = failed or where("key_map", number)
    raise_any(problems or _impossible(result.checkpoint, where("key_map")))
    return _accounted(checkpoint, result, where("key_map")) if key_map else result


def step_function(step: StepModel, where: Where, values: Values = NOTHING) -> StepFunction:
    """The function of one step; `where` gives positions below it. UserError where its text is wrong."""
    if isinstance(step, Family):
        below = partial(where, step.name)
        if step.family.name in AT_RUN_TIME:
            return of_transformers(step.family, values, below)
        return family(resolve(step.family, values, below), below)
    if step.name not in STEPS:
        raise UserError(_not_built(step.name, where(step.name)))
    return STEPS[step.name](getattr(step, step.name), partial(where, step.name))


def _after(before: Applied, function: StepFunction) -> Applied:
    after = function(before.checkpoint)
    return Applied(after.checkpoint, before.findings + after.findings, before.ties + after.ties)


def _accounted(before: Checkpoint, result: Applied, subject: str) -> Applied:
    """The result, with the totals as its last finding. UserError where a step lost a tensor or a part."""
    sources = (source for entry in before.values() for source in entry.sources)
    totals = info("names", subject, str(check_coverage(sources, result.checkpoint)))
    raise_any(lost_parts(before, result.checkpoint, subject))
    return replace(result, findings=(*result.findings, totals))


def _impossible(checkpoint: Checkpoint, subject: str) -> Iterator[Problem]:
    """What is wrong with the names that are left: those that no file can hold, slices that are no tensors."""
    yield from invalid(checkpoint, subject)
    yield from unjoined(checkpoint, subject)


def _in_doubt(problems: Sequence[Problem], failed: str) -> Iterator[Problem]:
    """The problems of a step after one that failed: they may vanish with the first."""
    for problem in problems:
        why = f"{problem.why}; or it follows from the step at {failed}" if failed else problem.why
        yield replace(problem, why=why)


def _long_names(checkpoint: Checkpoint) -> Iterator[Problem]:
    long = [name for name in checkpoint if len(name) > MAX_NAME]
    if long:
        yield source_problem(
            f"{len(long)} names are longer than {MAX_NAME} characters: {listed([long[0][:80]])}...",
            why="no library writes such names; the file is damaged or made to harm",
            do="use another file, or convert without a key map",
            check="names",
        )


def _not_built(kind: str, subject: str) -> Problem:
    return recipe_problem(
        f"the step `{kind}` is not built yet",
        why=f"this version has {', '.join(STEPS)}",
        do="leave the step out",
        subject=subject,
    )
