"""Lists and mappings of patterns, as steps have them: parsed all at once, tried in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hfconvert.errors import UserError, raise_any, recipe_problem
from hfconvert.findings import Finding, warning
from hfconvert.keymap.applied import Where
from hfconvert.keymap.patterns import Match, Pattern, Template

Key = TypeVar("Key")
Value = TypeVar("Value")

LOOK = "look at the names with `hfconvert inspect`, then mend the pattern or remove it"


_UNMATCHED = " matched 0 keys; other rules of the step did"


class MatchedNothingError(UserError):
    """A step that no name matches: an error in a recipe, a step to pass over in a family's table."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern of a step and its position in the recipe."""

    pattern: Pattern
    subject: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A pattern with the template on its right side, and its position in the recipe."""

    pattern: Pattern
    template: Template
    subject: str


def parse_rules(patterns: Sequence[str], where: Where) -> list[Rule]:
    """Parse a list of patterns; UserError (exit 2) with all that are none."""

    def parse(number: int) -> Rule:
        subject = where(number)
        return Rule(Pattern.parse(patterns[number], subject), subject)

    return parse_all(parse, range(len(patterns)))


def parse_pairs(pairs: Mapping[str, str], where: Where) -> list[Pair]:
    """Parse a mapping of patterns to templates; UserError (exit 2) with all that are none."""

    def parse(left: str) -> Pair:
        subject = where(left)
        pattern = Pattern.parse(left, subject)
        return Pair(pattern, Template.parse(pairs[left], pattern, subject), subject)

    return parse_all(parse, pairs)


def parse_all(parse: Callable[[Key], Value], keys: Iterable[Key]) -> list[Value]:
    """Parse one for each key; UserError with the problems of all of them."""
    tried = [_tried(parse, key) for key in keys]
    raise_any(problem for one in tried if isinstance(one, UserError) for problem in one.problems)
    return [one for one in tried if not isinstance(one, UserError)]


def first_matches(
    patterns: Sequence[Pattern], names: Iterable[str]
) -> Iterator[tuple[str, int, Match]]:
    """Every name that a pattern covers, with the number of the first one that does."""
    matchers = [(number, pattern.regex.match) for number, pattern in enumerate(patterns)]
    for name in names:
        for number, covers in matchers:
            if found := covers(name):
                yield name, number, Match(found)
                break


def unmatched(
    rules: Mapping[str, str], hits: set[str], subject: str, hint: str = LOOK
) -> tuple[Finding, ...]:
    """A warning for every rule (text to position) that is not among the hits.

    UserError (exit 2) about `subject`, the step, where there are no hits at all.
    """
    if not hits:
        raise matched_nothing(rules, subject, hint)
    return tuple(
        warning("names", where, f"`{rule}`{_UNMATCHED}", hint)
        for rule, where in rules.items()
        if rule not in hits
    )


def is_unmatched(finding: Finding) -> bool:
    """Whether a finding is about one rule that matched nothing."""
    return finding.message.endswith(_UNMATCHED)


def matched_nothing(rules: Iterable[str], subject: str, hint: str = LOOK) -> MatchedNothingError:
    """The error (exit 2) of a step that changes nothing."""
    return MatchedNothingError(
        recipe_problem(
            f"the step matched 0 keys: {', '.join(f'`{rule}`' for rule in rules)}",
            why="no name at this step is of that form; a pattern covers the whole name",
            do=hint,
            subject=subject,
            check="names",
        )
    )


def _tried(parse: Callable[[Key], Value], key: Key) -> Value | UserError:
    try:
        return parse(key)
    except UserError as error:
        return error
