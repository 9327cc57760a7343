"""Patterns over tensor names, and the templates that rewrite what they matched.

A pattern covers the whole name. `{x}` captures text without dots (one dotted part, or what literal text
leaves of it), `*` any run of characters, dots included, which may be empty. The same capture twice stands
for the same text. Everything else is literal; there is no escape. Where a name fits in several ways, each
wildcard from the left takes the shortest text that lets the rest fit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

from hfconvert.errors import UserError, recipe_problem
from hfconvert.keymap.tokens import Token, regex_of, segments_of, tokens_of


@dataclass(frozen=True, slots=True)
class Match:
    """What the wildcards of a pattern took from a name."""

    found: re.Match[str]

    def __getitem__(self, capture: str) -> str:
        """The text of a capture."""
        return self.found[f"c_{capture}"]

    def star(self, number: int) -> str:
        """The text of a star, counted from 0."""
        return self.found[f"s_{number}"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern. Matching takes time at most quadratic in the name."""

    text: str
    captures: tuple[str, ...]
    stars: int
    regex: re.Pattern[str]

    @classmethod
    def parse(cls, text: str, subject: str = "") -> Pattern:
        """Parse; UserError (exit 2) about `subject` where it is no pattern, or an ambiguous one."""
        tokens = _tokens(text, subject)
        if not tokens:
            raise _refused(subject, "the pattern is empty", "no tensor has an empty name", _FORM)
        _check_apart(text, tokens, subject)
        _check_repeated(text, tokens, subject)
        captures = tuple(dict.fromkeys(text for kind, text in tokens if kind == "capture"))
        stars = sum(token.kind == "star" for token in tokens)
        return cls(text, captures, stars, re.compile(regex_of(tokens), re.DOTALL))

    def match(self, name: str) -> Match | None:
        """What the wildcards take from the name; None where the pattern does not cover it."""
        found = self.regex.match(name)
        return Match(found) if found else None

    def covers(self, name: str) -> bool:
        """Whether the pattern matches the name."""
        return self.regex.match(name) is not None


@dataclass(frozen=True, slots=True)
class Template:
    """The right side of a rule: literal text, captures of the left side, and its stars in order."""

    text: str
    _form: str  # for the % operator
    _groups: tuple[str, ...]  # of the pattern's regular expression

    @classmethod
    def parse(cls, text: str, left: Pattern, subject: str = "") -> Template:
        """Parse; UserError (exit 2) about `subject` where it uses what `left` does not have."""
        tokens = _tokens(text, subject)
        stars = sum(token.kind == "star" for token in tokens)
        if stars > left.stars:
            what = f"`{text}` has more stars ({stars}) than `{left.text}` ({left.stars})"
            why = "`*` on the right side repeats the left's, in order"
            raise _refused(subject, what, why, "name the parts with captures such as `{i}`")
        used = dict.fromkeys(text for kind, text in tokens if kind == "capture")
        unknown = ", ".join(f"`{{{name}}}`" for name in used if name not in left.captures)
        if unknown:
            what = f"`{text}` uses {unknown}, which `{left.text}` does not capture"
            raise _refused(subject, what, "a misspelt capture", "capture it on the left side too")
        form = "".join(
            text.replace("%", "%%") if kind == "literal" else "%s" for kind, text in tokens
        )
        return cls(text, form, tuple(_groups(tokens)))

    def expand(self, match: Match) -> str:
        """The name that the template gives for a match of its left side."""
        texts = match.found.group(0, 0, *self._groups)[2:]  # two or more always give a tuple
        return self._form % texts


_FORM = "write a name in which `{i}` stands for one dotted part and `*` for anything"


def _tokens(text: str, subject: str) -> tuple[Token, ...]:
    try:
        return tokens_of(text)
    except ValueError as error:
        raise _refused(
            subject, f"`{text}` is no pattern: {error}", "an unpaired brace", _FORM
        ) from None


def _check_apart(text: str, tokens: Sequence[Token], subject: str) -> None:
    for one, two in pairwise(tokens):
        if "literal" not in (one.kind, two.kind):
            what = f"`{text}` has two wildcards side by side"
            why = "where the one ends and the other begins would be a guess"
            raise _refused(subject, what, why, "put literal text between them, or use one `*`")


def _check_repeated(text: str, tokens: Sequence[Token], subject: str) -> None:
    """A repeated capture may not leave open what it takes: it would have to be searched for."""
    counts = Counter(text for kind, text in tokens if kind == "capture")
    repeated = {name for name, count in counts.items() if count > 1}
    for segment in segments_of(tokens):
        names = [text for kind, text in segment if kind == "capture"]
        twice = repeated.intersection(names)
        loose = any(
            one.kind == "capture" and not two.text.startswith(".") for one, two in pairwise(segment)
        )
        if any(names.count(name) != counts[name] for name in twice) or (twice and loose):
            what = f"`{text}` repeats {', '.join(f'`{{{name}}}`' for name in sorted(twice))}"
            why = "repeated captures have to be whole dotted parts with no `*` between them"
            raise _refused(subject, what, why, "give the second one a name of its own")


def _groups(tokens: Sequence[Token]) -> Iterator[str]:
    stars = count()
    for kind, text in tokens:
        if kind != "literal":
            yield f"c_{text}" if kind == "capture" else f"s_{next(stars)}"


def _refused(subject: str, what: str, why: str, do: str) -> UserError:
    return UserError(recipe_problem(what, why=why, do=do, subject=subject, check="names"))
