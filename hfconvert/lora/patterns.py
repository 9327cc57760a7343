"""Patterns in adapters' configurations: whether a backtracking engine can match them in bounded time.

They are by whoever wrote the adapter, and `re`, with which PEFT matches them too, can be kept busy for years
by a few characters such as `(a+)+$`. What could do that is refused before anything is matched: a repetition
of what repeats, or of branches that begin alike, and more of either in a row than names of modules need.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hfconvert.errors import Problem, source_problem
from hfconvert.lora.settings import Settings

STEPS = 2e7  # that a pattern may take for a name: a fraction of a second
NAME = 64  # characters of a name
LONGEST = 20_000  # characters of a pattern
_TOKENS = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[aiLmsux]+\)|\(\?#[^)]*\)|\(\?P=\w+\)"
    r"|\((?:\?(?:P<\w+>|<?[=!]|[:>]|[aiLmsux-]+:))?|[)|]|[*+?][?+]?|\{\d*,?\d*\}[?+]?|.",
    re.DOTALL,
)
_PLAIN = re.compile(r"(?:\w|-|\\[.\d\w-])*")  # a branch that matches one text
_REPEATED = re.compile(r"[*+]|\{(?!0?,?1?\}|0\}|1,1\})\d*,?\d*\}")
_EITHER = ("target_modules", "exclude_modules", "feedforward_modules")  # names, or one pattern


def unsafe_patterns(settings: Settings, label: str) -> Iterator[Problem]:
    """A problem (exit 3) for every pattern that is none, or that could be matched for ever."""
    for field, pattern in _patterns(settings):
        for reason in _reasons(pattern) if isinstance(pattern, str) else ():
            yield source_problem(
                f"`{field}` has the pattern `{pattern[:120]}`, which {reason}",
                why="it is damaged, or was written to keep whoever matches it busy",
                do="name the modules one by one in a copy of the adapter's configuration",
                subject=label,
                check="lora",
            )


def _patterns(settings: Settings) -> Iterator[tuple[str, Any]]:
    for field in _EITHER:
        value = settings.get(field)
        if isinstance(value, str):
            yield field, value
    for field in ("modules_to_save", "layers_pattern"):
        value = settings.get(field)
        several = value if isinstance(value, list) else [value]
        yield from ((field, one) for one in several)
    for field in ("rank_pattern", "alpha_pattern"):
        value = settings.get(field)
        yield from ((field, one) for one in value) if isinstance(value, Mapping) else ()


def _reasons(pattern: str) -> Iterator[str]:
    if len(pattern) > LONGEST:
        yield f"has {len(pattern)} characters"
        return
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        yield f"is no regular expression: {error}"
        return
    found = _measured(pattern)
    if found.nested:
        yield "repeats what repeats itself, or branches that begin alike"
    elif found.steps > STEPS:
        yield f"could take {found.steps:.0e} steps for one name"


@dataclass(slots=True)
class _Piece:
    """What a part of a pattern holds: repetitions in a row, the ways past its options, what is nested."""

    text: str = ""
    repeated: int = 0
    ways: int = 1
    nested: bool = False

    @property
    def steps(self) -> float:
        """The most that matching it can take: where each repetition ends, in each of the ways."""
        return math.comb(NAME + self.repeated, self.repeated) * self.ways

    def then(self, other: _Piece) -> _Piece:
        """One after the other."""
        return _Piece(
            self.text + other.text,
            self.repeated + other.repeated,
            self.ways * other.ways,
            self.nested or other.nested,
        )

    def times(self, quantifier: str) -> _Piece:
        """The part under a quantifier."""
        text = self.text + quantifier
        if not _REPEATED.match(quantifier):
            return _Piece(text, self.repeated, self.ways + 1, self.nested)
        inside = self.repeated > 0 or self.ways > 1
        return _Piece(text, self.repeated + 1, self.ways, self.nested or inside)


def _measured(pattern: str) -> _Piece:
    """Over all the pattern, by a stack of groups: finished branches, the branch so far, its last piece."""
    stack: list[tuple[list[_Piece], _Piece, _Piece]] = [([], _Piece(), _Piece())]
    for found in _TOKENS.findall(pattern):
        branches, branch, last = stack.pop()
        if found[0] == "(" and found[-1] != ")":
            stack += [(branches, branch.then(last), _Piece()), ([], _Piece(), _Piece())]
        elif found == ")" and stack:
            outer, before, _ = stack.pop()
            stack.append((outer, before, _closed([*branches, branch.then(last)])))
        elif found == "|":
            stack.append(([*branches, branch.then(last)], _Piece(), _Piece()))
        elif found[0] in "*+?" or (found[0] == "{" and found != "{"):
            stack.append((branches, branch, last.times(found)))
        else:
            stack.append((branches, branch.then(last), _Piece(found)))
    branches, branch, last = stack.pop()
    return _closed([*branches, branch.then(last)])


def _closed(branches: list[_Piece]) -> _Piece:
    """A group: one way where at most one of its branches can match at a place, else one for each."""
    return _Piece(
        f"({'|'.join(branch.text for branch in branches)})",
        max(branch.repeated for branch in branches),
        max(branch.ways for branch in branches) * (1 if _differ(branches) else len(branches)),
        any(branch.nested for branch in branches),
    )


def _differ(branches: list[_Piece]) -> bool:
    """Whether the branches are plain texts of which none begins with another."""
    texts = sorted(branch.text for branch in branches)
    plain = all(_PLAIN.fullmatch(text) for text in texts)
    return len(texts) == 1 or (
        plain and not any(two.startswith(one) for one, two in pairwise(texts))
    )
