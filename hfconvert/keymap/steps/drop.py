"""`drop: [patterns]`: tensors that are left out, each with the rule that says so."""

from __future__ import annotations

from collections.abc import Sequence

from hfconvert.errors import Problem, UserError, recipe_problem
from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.rules import Rule, first_matches, parse_rules, unmatched
from hfconvert.tensors.checkpoint import Checkpoint, Dropped


def drop(patterns: Sequence[str], where: Where) -> StepFunction:
    """Leave out what the patterns match; every source of it is recorded with the first that does.

    UserError (exit 2) where a pattern is none, none matches, or nothing would be left.
    """
    rules = parse_rules(patterns, where)

    def step(checkpoint: Checkpoint) -> Applied:
        gone: dict[str, str] = {}
        for name, number, _ in first_matches([rule.pattern for rule in rules], checkpoint):
            gone[name] = rules[number].pattern.text
        texts = {rule.pattern.text: rule.subject for rule in rules}
        findings = unmatched(texts, set(gone.values()), where())
        if len(gone) == len(checkpoint):
            raise UserError(_everything(rules, len(gone), where()))
        dropped = [
            Dropped(source, f"drop: {rule}", checkpoint[name].tensor)
            for name, rule in gone.items()
            for source in checkpoint[name].sources
        ]
        kept = {name: entry for name, entry in checkpoint.items() if name not in gone}
        return Applied(checkpoint.with_entries(kept, *dropped), findings)

    return step


def _everything(rules: Sequence[Rule], count: int, subject: str) -> Problem:
    patterns = ", ".join(f"`{rule.pattern.text}`" for rule in rules)
    return recipe_problem(
        f"the rule drops 100 % of tensors: {patterns} matches all {count}",
        why="the pattern is too wide, or meant for `strip_prefix` or `rename`",
        do="narrow it; to take a prefix off the names, use `strip_prefix`",
        subject=subject,
        check="names",
    )
