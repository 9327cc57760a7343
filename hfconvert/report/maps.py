"""What the key map makes of names, folded over layers: source names, steps, target names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hfconvert.keymap.fold import fold
from hfconvert.report.sizes import counted
from hfconvert.tensors.checkpoint import Entry

SHOWN = 4  # folded lines of one side of a line; beyond that, how many more
_NUMBERS = re.compile(r"[0-9]+")


class _Kind(NamedTuple):
    """What tensors of one line have in common: steps, source names and target name without numbers."""

    steps: tuple[str, ...]
    sources: tuple[str, ...]
    target: str


def map_lines(entries: Iterable[tuple[str, Entry]]) -> Iterator[str]:
    """Lines for the tensors that a step changed, those of like names in one; then how many none changed.

    `dtype` steps are no part of the map.
    """
    kinds: dict[_Kind, list[tuple[str, Entry]]] = {}
    kept = 0
    for name, entry in entries:
        steps = tuple(step for step in entry.steps if not step.startswith("dtype "))
        if not steps:
            kept += 1
            continue
        sources = dict.fromkeys(_NUMBERS.sub("#", source) for source in entry.sources)
        kinds.setdefault(_Kind(steps, tuple(sources), _NUMBERS.sub("#", name)), []).append(
            (name, entry)
        )
    by_steps: dict[tuple[str, ...], list[list[tuple[str, Entry]]]] = {}
    for kind, found in kinds.items():
        by_steps.setdefault(kind.steps, []).append(found)
    for steps, groups in by_steps.items():
        count = sum(len(group) for group in groups)
        yield f"map      {counted(count, 'tensor')} by {', '.join(steps)}"
        yield from (f"           {_line(group)}" for group in groups)
    if kinds and kept:
        yield f"keep     {counted(kept, 'tensor')} under the source's name"


def _line(group: Sequence[tuple[str, Entry]]) -> str:
    sources = dict.fromkeys(source for _, entry in group for source in entry.sources)
    before, after = _folded(sources), _folded(name for name, _ in group)
    return before if before == after else f"{before} -> {after}"


def _folded(names: Iterable[str]) -> str:
    lines = fold(names)
    rest = len(lines) - SHOWN
    return ", ".join(lines[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
