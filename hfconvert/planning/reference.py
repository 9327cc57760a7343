"""`validate.reference` as the names to match: what the result must have, by a folder or file that has it.

Headers only. What differs is shown in the plan with the steps that would mend it, so that a map can be
written against a repository that exists; the `architecture` check is what fails a run for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hfconvert.errors import Problem, UserError, recipe_problem
from hfconvert.findings import Finding, info, warning
from hfconvert.keymap.fold import listed
from hfconvert.keymap.suggest import suggest
from hfconvert.planning.decide import Tie
from hfconvert.readers.load import Wanted, load
from hfconvert.recipe import Location
from hfconvert.tensors.box import Shape
from hfconvert.tensors.checkpoint import Checkpoint

MOST_LINES = 24  # suggested lines that a message holds


def match_reference(
    reference: Location | None, checkpoint: Checkpoint, ties: Iterable[Tie], where: str
) -> Finding | None:
    """That names and shapes are those of the reference, or the difference with suggested steps as its hint.

    None where there is no reference, or where it is a file of golden logits. A name that is written once
    because it is a tie may be there or not. UserError (exit 2) where the reference cannot be read.
    """
    wanted = _shapes(reference, where) if reference else None
    if reference is None or wanted is None:
        return None
    found = {name: entry.tensor.spec.shape for name, entry in checkpoint.items()}
    tied = {name for tie in ties for name in (tie.kept, tie.dropped)}
    theirs = {name: shape for name, shape in wanted.items() if name in found or name not in tied}
    ours = {name: shape for name, shape in found.items() if name in wanted or name not in tied}
    if ours != theirs:
        return _difference(reference, ours, theirs, where)
    return info("names", where, f"all {len(theirs)} names and shapes are those of {reference}")


def _shapes(reference: Location, where: str) -> dict[str, Shape] | None:
    """Names and shapes of the reference; None for golden logits, which hold `logits` or are no weights."""
    place = reference.local
    if place is None or place.suffix in (".npz", ".json"):
        return None
    wanted = Wanted(
        remote=reference.remote, where_path=where, where_files=where, where_weights=where
    )
    try:
        held = load(place, wanted).checkpoint
    except UserError as error:
        raise UserError(*(_unreadable(one, reference, where) for one in error.problems)) from error
    if {"input_ids", "logits"} <= held.keys():
        return None
    return {name: entry.tensor.spec.shape for name, entry in held.items()}


def _difference(
    reference: Location, ours: Mapping[str, Shape], theirs: Mapping[str, Shape], where: str
) -> Finding:
    here = [name for name in ours if name not in theirs]
    there = [name for name in theirs if name not in ours]
    shapes = [name for name in ours if name in theirs and ours[name] != theirs[name]]
    said = [
        f"{len(names)} {what}: {listed(names, 4)}"
        for names, what in (
            (there, "only in the reference"),
            (here, "only in the result"),
            (shapes, "of another shape"),
        )
        if names
    ]
    message = f"names and shapes are not those of {reference}: {'; '.join(said)}"
    return warning("names", where, message, _advice(suggest(ours, theirs)))


def _advice(lines: list[str]) -> str:
    shown = lines[:MOST_LINES]
    rest = len(lines) - len(shown)
    more = [f"# and {rest} more"] if rest else []
    text = "\n".join(f"         {line}" for line in [*shown, *more])
    return f"add to key_map what is right of these steps:\n{text}"


def _unreadable(problem: Problem, reference: Location, where: str) -> Problem:
    return recipe_problem(
        f"the reference {reference} cannot be read: {problem.what}",
        why=problem.why,
        do="name a folder with weights, or remove validate.reference",
        subject=where,
    )
