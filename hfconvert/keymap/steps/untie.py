"""`untie: {name: other}`: both names are written, whether the source stores one of them or both."""

from __future__ import annotations

from collections.abc import Mapping

from hfconvert.errors import Problem, raise_any, recipe_problem
from hfconvert.keymap.applied import UNTIE, Applied, StepFunction, Where
from hfconvert.keymap.fold import listed
from hfconvert.keymap.move import invalid
from hfconvert.keymap.patterns import Pattern, Template
from hfconvert.keymap.rules import Pair, first_matches, parse_all, unmatched
from hfconvert.tensors.checkpoint import Checkpoint, Entry


def untie(pairs: Mapping[str, str], where: Where) -> StepFunction:
    """Write the tensor on the right under the name on the left too; `*` and captures are those of the right.

    A name that is there already stays as it is. Either way `is_untied` holds for it from here on, whatever it
    is called later. UserError (exit 2) where nothing matches or two tensors would have one name.
    """
    rules = _parse(pairs, where)
    patterns = [rule.pattern for rule in rules]
    texts = {rule.pattern.text: rule.subject for rule in rules}

    def step(checkpoint: Checkpoint) -> Applied:
        copies: dict[str, str] = {}  # new name -> the name that it is a copy of
        twice: list[str] = []
        hits: set[str] = set()
        for name, number, match in first_matches(patterns, checkpoint):
            copy = rules[number].template.expand(match)
            hits.add(patterns[number].text)
            if copy in copies or copy == name:
                twice.append(copy)
            copies[copy] = name
        findings = unmatched(texts, hits, where())
        raise_any([*invalid(copies, where()), *(_ambiguous(name, where()) for name in twice)])
        return Applied(checkpoint.with_entries(_entries(checkpoint, copies)), findings)

    return step


def _entries(checkpoint: Checkpoint, copies: Mapping[str, str]) -> dict[str, Entry]:
    """All entries in their order, those that are new behind the one that they are a copy of."""
    behind: dict[str, list[str]] = {}
    for copy, name in copies.items():
        behind.setdefault(name, []).append(copy)
    entries: dict[str, Entry] = {}
    for name, entry in checkpoint.items():
        entries[name] = _marked(entry, copies[name]) if name in copies else entry
        for copy in behind.get(name, ()):
            if copy not in checkpoint:
                entries[copy] = _marked(entry, name)
    return entries


def _marked(entry: Entry, other: str) -> Entry:
    return Entry(entry.tensor, entry.sources, (*entry.steps, f"{UNTIE}{other}"))


def _parse(pairs: Mapping[str, str], where: Where) -> list[Pair]:
    """The right side is the pattern here: what is there gives the name of what is not."""

    def parse(left: str) -> Pair:
        subject = where(left)
        pattern = Pattern.parse(pairs[left], subject)
        return Pair(pattern, Template.parse(left, pattern, subject), subject)

    return parse_all(parse, pairs)


def _ambiguous(name: str, subject: str) -> Problem:
    return recipe_problem(
        f"{listed([name])} would be a copy of itself, or of several tensors",
        why="the right side matches more than one name for it",
        do="write `untie: {new name: name it is a copy of}`, one tensor for each new name",
        subject=subject,
        check="names",
    )
