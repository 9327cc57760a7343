"""What is wrong with a recipe, before it becomes a problem that a user reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from hfconvert.errors import Problem, recipe_problem
from hfconvert.recipe.positions import Mark
from hfconvert.visible import one_line

MOST_PROBLEMS = 100


class RefusedError(ValueError):
    """A value that its field does not take; validators raise it, pydantic collects it."""

    def __init__(self, what: str, *, why: str = "", do: str) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.do = do


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, and where."""

    mark: Mark
    what: str
    why: str
    do: str

    def problem(self) -> Problem:
        """The fault as every command reports it (exit 2)."""
        return recipe_problem(self.what, why=self.why, do=self.do, subject=str(self.mark))


def in_order(faults: Iterable[Fault]) -> list[Problem]:
    """The problems in reading order, each once; those after the first hundred are only counted."""
    unique = [*dict.fromkeys(sorted(faults, key=lambda fault: fault.mark))]
    problems = [fault.problem() for fault in unique[:MOST_PROBLEMS]]
    if len(unique) > MOST_PROBLEMS:
        what = f"{len(unique) - MOST_PROBLEMS} more problems after this"
        problems.append(
            recipe_problem(what, why="", do="mend the first", subject=problems[-1].subject)
        )
    return problems


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that looks most like the one given, or None when none does."""
    names = list(valid)
    by_lower = {known.lower(): known for known in names}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[close[0]] if close else None


def name_hint(name: str, valid: Iterable[str]) -> tuple[str, str]:
    """The second and third beat for a name that is not valid: the likely cause, what to do."""
    names = list(valid)
    near = nearest(name, names)
    listed = ", ".join(names)
    if near is None:
        return "", f"use one of: {listed}"
    return f"did you mean `{near}`?", f"write `{near}`; valid here: {listed}"


def shown(value: object) -> str:
    """A value as a message quotes it: short, on one line."""
    if not isinstance(value, str | int | float):
        return _kind(value)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    line = one_line(text)
    return f"`{line[:60]}...`" if len(line) > 60 else f"`{line}`"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, tuple):
        return f"a list of {len(value)}"
    return "a mapping" if isinstance(value, dict) else "an object"
