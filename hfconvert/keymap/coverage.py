"""No tensor is lost: every one of the source is mapped, dropped by a named rule, or an error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hfconvert.errors import Problem, raise_any, recipe_problem
from hfconvert.keymap.fold import listed
from hfconvert.tensors.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class Coverage:
    """What became of the names of a source: in an output, dropped by a rule and in none, or neither."""

    mapped: tuple[str, ...]
    dropped: tuple[str, ...]
    lost: tuple[str, ...]

    def __str__(self) -> str:
        total = len(self.mapped) + len(self.dropped) + len(self.lost)
        return f"{total} tensors: {len(self.mapped)} mapped, {len(self.dropped)} dropped"


def coverage(sources: Iterable[str], checkpoint: Checkpoint) -> Coverage:
    """Account for every source tensor by what the entries and dropped tensors of the result say.

    Trusts no step: it looks at the first and the last checkpoint only. By name; what part of a tensor is
    used is not its question.
    """
    used = {source for entry in checkpoint.values() for source in entry.sources}
    gone = {dropped.name for dropped in checkpoint.dropped} - used
    names = list(dict.fromkeys(sources))
    return Coverage(
        tuple(name for name in names if name in used),
        tuple(name for name in names if name in gone),
        tuple(name for name in names if name not in used and name not in gone),
    )


def check_coverage(sources: Iterable[str], checkpoint: Checkpoint) -> Coverage:
    """The coverage, when it is complete; UserError (exit 2) that lists what is lost otherwise."""
    found = coverage(sources, checkpoint)
    raise_any([_lost(found)] if found.lost else [])
    return found


def _lost(found: Coverage) -> Problem:
    return recipe_problem(
        f"{len(found.lost)} tensors are neither mapped nor dropped: {listed(found.lost)} ({found})",
        why="the key map takes them in, and no output has them",
        do="map them, or name them in a `drop` step",
        check="names",
    )
