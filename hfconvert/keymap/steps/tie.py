"""`tie: {dropped: kept}`: two names of one tensor become one.

Whether the values are equal is not looked at here.
"""

from __future__ import annotations

from collections.abc import Mapping

from hfconvert.errors import Problem, raise_any, recipe_problem
from hfconvert.keymap.applied import Applied, ClaimedTie, StepFunction, Where
from hfconvert.keymap.fold import listed
from hfconvert.keymap.rules import first_matches, parse_pairs, unmatched
from hfconvert.tensors.checkpoint import Checkpoint, Dropped


def tie(pairs: Mapping[str, str], where: Where) -> StepFunction:
    """Leave out the names on the left and keep those on the right, which have to be there.

    Each pair is recorded as a `ClaimedTie` with both entries, for who compares values. UserError (exit 2)
    where nothing matches, the kept name is missing or left out itself, or dtype or shape differ.
    """
    rules = parse_pairs(pairs, where)
    patterns = [rule.pattern for rule in rules]
    texts = {rule.pattern.text: rule.subject for rule in rules}

    def step(checkpoint: Checkpoint) -> Applied:
        kept: dict[str, str] = {}
        subjects: dict[str, str] = {}
        for name, number, match in first_matches(patterns, checkpoint):
            kept[name] = rules[number].template.expand(match)
            subjects[name] = rules[number].subject
        hits = {rule.pattern.text for rule in rules if rule.subject in subjects.values()}
        findings = unmatched(texts, hits, where())
        problems = (_problem(checkpoint, name, kept, subjects[name]) for name in kept)
        raise_any(problem for problem in problems if problem)
        ties = tuple(
            ClaimedTie(other, name, checkpoint[other], checkpoint[name], subjects[name])
            for name, other in kept.items()
        )
        dropped = [
            Dropped(source, f"tie: {one.dropped} = {one.kept}", one.dropped_entry.tensor)
            for one in ties
            for source in one.dropped_entry.sources
        ]
        left = {name: entry for name, entry in checkpoint.items() if name not in kept}
        return Applied(checkpoint.with_entries(left, *dropped), findings, ties)

    return step


def _problem(
    checkpoint: Checkpoint, name: str, kept: Mapping[str, str], subject: str
) -> Problem | None:
    other = kept[name]
    left, right = listed([name]), listed([other])
    if other not in checkpoint:
        what = f"{left} cannot be tied to {right}, which is not there"
        return _refused(what, "another name at this step", subject)
    if other in kept:
        what = f"{left} cannot be tied to {right}, which the same step leaves out"
        return _refused(what, "the pair is the wrong way round, or chained", subject)
    one, two = checkpoint[name].tensor.spec, checkpoint[other].tensor.spec
    if one != two:
        what = f"{left} is {one} and {right} is {two}: they are no tie"
        return _refused(what, "one of them was resized, cast or transposed", subject)
    return None


def _refused(what: str, why: str, subject: str) -> Problem:
    do = "write `tie: {dropped: kept}` with two names of one tensor"
    return recipe_problem(what, why=why, do=do, subject=subject, check="names")
