"""Which tensors a step takes together: by the name that their patterns give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hfconvert.errors import Problem, UserError, raise_any, recipe_problem
from hfconvert.keymap.applied import Where
from hfconvert.keymap.fold import listed
from hfconvert.keymap.made import Making
from hfconvert.keymap.patterns import Match, Pattern, Template
from hfconvert.keymap.rules import first_matches, matched_nothing, parse_all
from hfconvert.keymap.tokens import Token, tokens_of
from hfconvert.tensors.checkpoint import Checkpoint

MOST = 1 << 16  # tensors that a number may tell apart: more is no stack of layers or experts


@dataclass(frozen=True, slots=True)
class OneToMany:
    """One pattern, and the names that its tensor is divided into."""

    pattern: Pattern
    into: tuple[Template, ...]

    @classmethod
    def parse(cls, from_: str, into: Sequence[str], where: Where) -> OneToMany:
        """Parse; UserError (exit 2) with all that is wrong."""
        pattern = Pattern.parse(from_, where("from"))

        def parse(number: int) -> Template:
            return Template.parse(into[number], pattern, where("into", number))

        return cls(pattern, tuple(parse_all(parse, range(len(into)))))

    def makings(self, checkpoint: Checkpoint, subject: str) -> list[Making]:
        """Every tensor that the pattern covers with its new names. UserError (exit 2) where there is none."""
        found = [
            Making((name,), tuple(template.expand(match) for template in self.into))
            for name, _, match in first_matches([self.pattern], checkpoint)
        ]
        return _some(found, [self.pattern.text], subject)


@dataclass(frozen=True, slots=True)
class ManyToOne:
    """Several patterns, and the one name that tensors of each are put together under."""

    patterns: tuple[Pattern, ...]
    into: tuple[Template, ...]  # the same text, as each pattern fills it in

    @classmethod
    def parse(cls, from_: Sequence[str], into: str, where: Where) -> ManyToOne:
        """Parse; UserError (exit 2) with all that is wrong."""

        def parse(number: int) -> tuple[Pattern, Template]:
            pattern = Pattern.parse(from_[number], where("from", number))
            return pattern, Template.parse(into, pattern, where("into"))

        pairs = parse_all(parse, range(len(from_)))
        return cls(tuple(one for one, _ in pairs), tuple(two for _, two in pairs))

    def makings(self, checkpoint: Checkpoint, subject: str) -> list[Making]:
        """For every new name its tensors, one of each pattern. UserError (exit 2) where one is missing."""
        parts = Parts(subject)
        for name, number, match in first_matches(self.patterns, checkpoint):
            parts.add(self.into[number].expand(match), number, name)
        texts = [pattern.text for pattern in self.patterns]
        return _some(parts.makings(len(texts), texts), texts, subject)


@dataclass(frozen=True, slots=True)
class Numbered:
    """A pattern one of whose captures is a number that the other side does not have."""

    pattern: Pattern
    template: Template
    capture: str

    @classmethod
    def parse(cls, with_number: str, without: str, where: Where) -> Numbered:
        """Parse the side that is read with its number (`from`) and the other. UserError (exit 2)."""
        pattern = Pattern.parse(with_number, where("from"))
        template = Template.parse(without, pattern, where("into"))
        capture = number_capture(with_number, without, where())
        return cls(pattern, template, capture)

    def makings(self, checkpoint: Checkpoint, subject: str) -> list[Making]:
        """For every new name its tensors by number, from 0 on without a gap. UserError (exit 2) otherwise."""
        parts = Parts(subject)
        for name, _, match in first_matches([self.pattern], checkpoint):
            number = number_of(match, self.capture)
            if number is not None:
                parts.add(self.template.expand(match), number, name)
        return _some(parts.makings(None, ()), [self.pattern.text], subject)


class Parts:
    """Names of tensors by the name that they are put together under, and by their place in it."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._found: dict[str, dict[int, str]] = {}
        self._twice: dict[str, list[str]] = {}

    def add(self, target: str, place: int, name: str) -> None:
        """Note a tensor; two at one place are a problem."""
        first = self._found.setdefault(target, {}).setdefault(place, name)
        if first != name:
            self._twice.setdefault(target, [first]).append(name)

    def makings(self, count: int | None, labels: Sequence[str]) -> list[Making]:
        """One for every target, all its places from 0 to `count` (None: as many as there are) filled.

        UserError (exit 2) where one is empty or taken twice; `labels` say what belongs at a place.
        """
        short: dict[str, list[str]] = {}
        for target, names in self._found.items():
            size = max(names) + 1 if count is None else count
            missing = [place for place in range(min(size, MOST)) if place not in names]
            if missing:
                said = ", ".join(f"`{labels[one]}`" if labels else str(one) for one in missing[:8])
                short.setdefault(said, []).append(target)
        raise_any([*self._ambiguous(), *self._short(short)])
        return [
            Making(tuple(names[place] for place in sorted(names)), (target,))
            for target, names in self._found.items()
        ]

    def _ambiguous(self) -> Iterator[Problem]:
        if self._twice:
            names = [name for both in self._twice.values() for name in both]
            yield recipe_problem(
                f"{listed(self._twice)} would have several tensors at one place: {listed(names)}",
                why="the new name does not tell them apart",
                do="repeat on the right side every capture that does, or narrow the pattern",
                subject=self._subject,
                check="names",
            )

    def _short(self, short: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
        for missing, targets in short.items():
            yield recipe_problem(
                f"{listed(targets)}: missing {missing}",
                why="the source lacks it, it has another name at this step, or it was dropped before",
                do="mend the pattern; a part that is not there cannot be made up",
                subject=self._subject,
                check="names",
            )


def number_capture(with_number: str, without: str, subject: str) -> str:
    """The one capture that the first text has and the second has not. UserError (exit 2) otherwise."""
    ours, theirs = (_captures(tokens_of(text)) for text in (with_number, without))
    extra = [name for name in ours if name not in theirs]
    if len(extra) == 1:
        return extra[0]
    names = ", ".join(f"`{{{name}}}`" for name in extra) or "none"
    raise UserError(
        recipe_problem(
            f"`{with_number}` has to have one capture more than `{without}`: it has {names}",
            why="that capture is the number along the new dimension",
            do='write it so: "experts.{n}.weight" beside "experts.weight"',
            subject=subject,
            check="names",
        )
    )


def number_of(match: Match, capture: str) -> int | None:
    """The number that a capture took; None where it is no number, so that the pattern does not cover it."""
    text = match[capture]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


def _captures(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for kind, text in tokens if kind == "capture"))


def _some(makings: list[Making], patterns: Sequence[str], subject: str) -> list[Making]:
    if not makings:
        raise matched_nothing(patterns, subject)
    return makings
