"""Long lists of names, folded for messages: `layers.{0..31}.mlp.up_proj.weight`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

Numbers = tuple[int, ...]
Axis = tuple[int, ...]  # the sorted numbers that one place takes

_BRACES = re.compile(r"[{}]")
_NUMBER = re.compile(r"(?<![0-9])(0|[1-9][0-9]{0,17})(?![0-9])")  # leading zeros would be lost
_PIECE = re.compile(r"\{\{|\}\}|\{([0-9.,]+)\}|[^{}]+")


def fold(names: Iterable[str]) -> list[str]:
    """Fold names that differ in their numbers only into one line each.

    Numbers of a place are written `{0..3,7}` where they are several; braces of a name are doubled. The
    lines come in the order in which the first name of their kind does, and `unfold` gives exactly the set
    of names back. Linear in the names, however many numbers they hold.
    """
    kinds: dict[tuple[str, ...], dict[Numbers, None]] = {}
    for name in names:
        pieces = _NUMBER.split(name)
        numbers = tuple(map(int, pieces[1::2]))
        kinds.setdefault(tuple(pieces[::2]), {})[numbers] = None
    return [
        _written(literals, axes)
        for literals, found in kinds.items()
        for axes in _grids(sorted(found))
    ]


def unfold(lines: Iterable[str]) -> Iterator[str]:
    """The names that folded lines stand for: the inverse of `fold`."""
    for line in lines:
        places = [_values(match[0], match[1]) for match in _PIECE.finditer(line)]
        yield from map("".join, product(*places))


def listed(names: Iterable[str], limit: int = 8) -> str:
    """Names for a message: folded, each in backquotes, with the count of what lies beyond `limit` lines."""
    lines = fold(names)
    shown = ", ".join(f"`{_visible(line)}`" for line in lines[:limit])
    rest = len(lines) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown


def _grids(found: Sequence[Numbers]) -> Iterator[tuple[Axis, ...]]:
    """Cover the tuples exactly by grids: those with the same last numbers share one."""
    if not found[0]:
        yield ()
        return
    last: dict[Numbers, list[int]] = {}
    for numbers in found:
        last.setdefault(numbers[:-1], []).append(numbers[-1])
    shared: dict[Axis, list[Numbers]] = {}
    for lead, values in last.items():
        shared.setdefault(tuple(values), []).append(lead)
    for axis, leads in shared.items():
        for grid in _grids(leads):
            yield (*grid, axis)


def _written(literals: Sequence[str], axes: Sequence[Axis]) -> str:
    pieces = [_BRACES.sub(lambda match: match[0] * 2, literals[0])]
    for axis, literal in zip(axes, literals[1:], strict=True):
        runs = ",".join(_runs(axis))
        pieces.append(runs if len(axis) == 1 else f"{{{runs}}}")
        pieces.append(_BRACES.sub(lambda match: match[0] * 2, literal))
    return "".join(pieces)


def _runs(axis: Axis) -> Iterator[str]:
    first = previous = axis[0]
    for number in (*axis[1:], None):
        if number == previous + 1:
            previous = number
            continue
        yield str(first) if first == previous else f"{first}..{previous}"
        if number is not None:
            first = previous = number


def _values(piece: str, runs: str | None) -> list[str]:
    if runs is None:
        return [piece[0] if piece in ("{{", "}}") else piece]
    values: list[str] = []
    for run in runs.split(","):
        first, _, last = run.partition("..")
        values.extend(str(number) for number in range(int(first), int(last or first) + 1))
    return values


def _visible(line: str) -> str:
    """The line with control characters written as escapes: a name may not act on a terminal."""
    return line if line.isprintable() else line.encode("unicode_escape").decode("ascii")
