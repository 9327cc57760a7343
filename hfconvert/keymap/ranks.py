"""Names of what one rank holds of a tensor: `name@0`, `name@1`, ..."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from hfconvert.errors import Problem, recipe_problem
from hfconvert.keymap.fold import listed

_SLICE = re.compile(r"(?P<base>.+)@(?P<rank>[0-9]{1,6})\Z", re.DOTALL)


def ranks_of(names: Iterable[str]) -> dict[str, dict[int, str]]:
    """By the name of the whole: the names of its slices, by rank. Names without a rank are not among them."""
    found: dict[str, dict[int, str]] = {}
    for name in names:
        match = _SLICE.match(name) if "@" in name else None
        if match:
            found.setdefault(match["base"], {})[int(match["rank"])] = name
    return found


def world_of(slices: Mapping[str, Mapping[int, str]]) -> int:
    """How many ranks there are: one more than the highest that holds a slice."""
    return max((max(ranks) for ranks in slices.values()), default=0) + 1


def unjoined(names: Iterable[str], subject: str) -> Iterator[Problem]:
    """A problem (exit 2) for slices that no step has joined, if there are any."""
    left = ranks_of(names)
    if left:
        slices = [name for ranks in left.values() for name in ranks.values()]
        yield recipe_problem(
            f"{len(slices)} tensors are still slices of ranks: {listed(slices)}",
            why="a whole tensor is divided over the ranks, or each rank holds a replica of it",
            do="add a `join` step: the dimension that they are split along, or replicated",
            subject=subject,
            check="names",
        )
