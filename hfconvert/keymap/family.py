"""`family: {name, ...}`: the steps of a family's table, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hfconvert.errors import Problem, UserError, raise_any, recipe_problem
from hfconvert.findings import Finding, info
from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.families.resolve import Resolved
from hfconvert.keymap.fold import listed
from hfconvert.keymap.patterns import Pattern
from hfconvert.keymap.rules import MatchedNothingError, is_unmatched
from hfconvert.keymap.steps import STEPS
from hfconvert.tensors.checkpoint import Checkpoint


def family(resolved: Resolved, where: Where) -> StepFunction:
    """Take the steps of a family; those that match nothing are passed over.

    UserError (exit 2), with the number of the step in the table, for everything else that is wrong: nothing
    of the family matches, or a name is left that the family does not make.
    """
    functions = [
        STEPS[step.name](getattr(step, step.name), _place(where, resolved.name, number))
        for number, step in enumerate(resolved.steps, 1)
    ]
    target = [Pattern.parse(text, where()) for text in resolved.target or ()]

    def step(checkpoint: Checkpoint) -> Applied:
        result, taken = _all(functions, checkpoint)
        if not taken:
            raise MatchedNothingError(_nothing(resolved.name, checkpoint, where()))
        raise_any(_strangers(resolved.name, target, result.checkpoint, where()))
        said = info(
            "names",
            where(),
            f"{resolved.name}: {taken} of {len(functions)} steps found names",
        )
        return replace(result, findings=(*resolved.findings, said, *result.findings))

    return step


def _all(functions: Sequence[StepFunction], checkpoint: Checkpoint) -> tuple[Applied, int]:
    """The result of all the steps, and how many matched something. UserError with all their problems."""
    result, taken = Applied(checkpoint), 0
    problems: list[Problem] = []
    for function in functions:
        try:
            after = function(result.checkpoint)
        except MatchedNothingError:
            continue
        except UserError as error:
            problems += error.problems
            continue
        taken += 1
        found = (*result.findings, *_told(after.findings))
        result = Applied(after.checkpoint, found, result.ties + after.ties)
    raise_any(problems)
    return result, taken


def _told(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Without the patterns of a table that match nothing: a table is for more than one checkpoint."""
    return (finding for finding in findings if not is_unmatched(finding))


def _place(where: Where, name: str, number: int) -> Where:
    return lambda *_: f"{where()} ({name}, step {number})"


def _nothing(name: str, checkpoint: Checkpoint, subject: str) -> Problem:
    return recipe_problem(
        f"no step of the family `{name}` matches a name: {listed(checkpoint, 3)}",
        why="the checkpoint is of another kind, has its target's names already, or has a prefix",
        do="look at the names with `hfconvert inspect`; strip a prefix before the family",
        subject=subject,
        check="names",
    )


def _strangers(
    name: str, target: Sequence[Pattern], checkpoint: Checkpoint, subject: str
) -> Iterator[Problem]:
    """Names that a family with a target does not make."""
    strange = [one for one in checkpoint if target and not any(p.covers(one) for p in target)]
    if strange:
        yield recipe_problem(
            f"{len(strange)} names are not known to the family `{name}`: {listed(strange)}",
            why="the checkpoint has modules that the family does not have, or is of another kind",
            do="map or drop them in a step before the family",
            subject=subject,
            check="names",
        )
