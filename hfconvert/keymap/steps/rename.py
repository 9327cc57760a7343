"""`rename: {pattern: name}`: other names, by the first pattern that matches."""

from __future__ import annotations

from collections.abc import Mapping

from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.move import moved
from hfconvert.keymap.rules import first_matches, parse_pairs, unmatched
from hfconvert.tensors.checkpoint import Checkpoint


def rename(pairs: Mapping[str, str], where: Where) -> StepFunction:
    """Rename all at once: nothing chains, and two names can be exchanged.

    `where` gives the position of the step, and of a pattern in it. UserError (exit 2) where a pattern is
    no pattern, none matches, or two tensors would have one name; one that matches nothing is a warning.
    """
    rules = parse_pairs(pairs, where)
    patterns = [rule.pattern for rule in rules]

    def step(checkpoint: Checkpoint) -> Applied:
        names: dict[str, str] = {}
        hits: set[str] = set()
        for name, number, match in first_matches(patterns, checkpoint):
            names[name] = rules[number].template.expand(match)
            hits.add(patterns[number].text)
        texts = {rule.pattern.text: rule.subject for rule in rules}
        findings = unmatched(texts, hits, where())
        return Applied(moved(checkpoint, names, "rename", where()), findings)

    return step
