"""Steps that would make names and shapes those of a reference: suggestions, as text of a recipe.

Names, numbers and shapes are compared, never values. What fits in several ways is said beside what looks most
alike; people decide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from hfconvert.tensors.box import Shape

Shapes = Mapping[str, Shape]
Numbers = tuple[str, ...]

MOST_KINDS = 400  # kinds of names that are matched with each other; more are another model
_NUMBER = re.compile(r"(?<=\.)[0-9]+(?=\.|$)|^[0-9]+(?=\.)")
_CAPTURE = re.compile(r"\{[a-z0-9]+\}")


@dataclass(frozen=True, slots=True)
class Kind:
    """Names that differ in their numbers only: the pattern, and the shape under each tuple of numbers."""

    pattern: str
    shapes: Mapping[Numbers, Shape]


def suggest(ours: Shapes, theirs: Shapes) -> list[str]:
    """Lines of a `key_map` that leads from our names and shapes to theirs; empty where they are the same."""
    prefixed = _prefix(ours, theirs)
    if prefixed is not None:
        return [prefixed]
    here = kinds({name: shape for name, shape in ours.items() if name not in theirs})
    there = kinds({name: shape for name, shape in theirs.items() if name not in ours})
    both = kinds({name: shape for name, shape in ours.items() if name in theirs})
    lines = [*_reshaped(both, theirs)]
    if len(here) > MOST_KINDS or len(there) > MOST_KINDS:
        return [*lines, f"# {len(here)} kinds of names here, {len(there)} there: another model?"]
    stacks = list(_stacks(here, there))
    used = {kind.pattern for pair in stacks for kind in pair[1:]}
    lines += [line for line, _, _ in stacks]
    pairs = _renames(
        [kind for kind in here if kind.pattern not in used],
        [kind for kind in there if kind.pattern not in used],
    )
    used |= {kind.pattern for one, other, _ in pairs for kind in (one, other)}
    lines += _rename_lines(pairs)
    left = [kind.pattern for kind in here if kind.pattern not in used]
    missing = [kind.pattern for kind in there if kind.pattern not in used]
    lines += [
        f"# - drop: [{_quoted(pattern)}]  # the reference has nothing like it" for pattern in left
    ]
    lines += [f"# nothing here makes `{pattern}` of the reference" for pattern in missing]
    return lines


def kinds(shapes: Shapes) -> list[Kind]:
    """Sort names by what is left of them without the parts that are numbers."""
    found: dict[str, dict[Numbers, Shape]] = {}
    for name, shape in shapes.items():
        found.setdefault(_NUMBER.sub("#", name), {})[tuple(_NUMBER.findall(name))] = shape
    return [Kind(_captured(text), by_numbers) for text, by_numbers in found.items()]


def _captured(text: str) -> str:
    """The pattern: the first number is `{i}`, the second `{n}`."""
    parts = text.replace("{", "*").replace("}", "*").split("#")
    letters = ["i", "n", *(f"n{number}" for number in range(2, len(parts)))]
    names = [f"{{{name}}}" for name in letters[: len(parts) - 1]]
    return "".join(part + name for part, name in zip(parts, [*names, ""], strict=True))


def _prefix(ours: Shapes, theirs: Shapes) -> str | None:
    """A prefix that is all the difference."""
    if not ours or len(ours) != len(theirs) or ours.keys() == theirs.keys():
        return None
    for longer, shorter, step in ((ours, theirs, "strip"), (theirs, ours, "add")):
        name = min(longer, key=len)
        last = next((one for one in shorter if name.endswith(one)), None)
        prefix = name.removesuffix(last) if last else ""
        if prefix and {f"{prefix}{one}": shape for one, shape in shorter.items()} == dict(longer):
            value = _quoted(prefix) if step == "add" else f"[{_quoted(prefix)}]"
            return f"- {step}_prefix: {value}"
    return None


def _reshaped(both: Sequence[Kind], theirs: Shapes) -> Iterator[str]:
    """Names that are the same on both sides, under other shapes."""
    for kind in both:
        wanted = {numbers: theirs[_filled(kind.pattern, numbers)] for numbers in kind.shapes}
        changes = {(kind.shapes[numbers], shape) for numbers, shape in wanted.items()}
        different = [(one, other) for one, other in changes if one != other]
        if not different:
            continue
        one, other = different[0]
        if all(len(a) == len(b) == 2 and a == b[::-1] for a, b in different):
            yield f"- transpose: [{_quoted(kind.pattern)}]"
        elif len(different) == 1 and one[1:] == other[1:] and one and other:
            yield f"- resize: {{{_quoted(kind.pattern)}: {other[0]}}}"
        else:
            yield f"# `{kind.pattern}` is {list(one)} here and {list(other)} in the reference"


def _filled(pattern: str, numbers: Numbers) -> str:
    pieces = _CAPTURE.split(pattern)
    return "".join(a + b for a, b in zip(pieces, [*numbers, ""], strict=True))


def _stacks(here: Sequence[Kind], there: Sequence[Kind]) -> Iterator[tuple[str, Kind, Kind]]:
    """Numbered tensors on one side that are one tensor on the other."""
    taken: set[str] = set()
    for step, many, one in (("stack", here, there), ("unstack", there, here)):
        for kind in many:
            fits = [other for other in one if other.pattern not in taken and _is_stack(kind, other)]
            if fits:
                best = max(fits, key=lambda other: _alike(kind, other))
                taken.add(best.pattern)
                ends = (kind, best) if step == "stack" else (best, kind)
                from_, into = (_quoted(end.pattern) for end in ends)
                yield f"- {step}: {{from: {from_}, into: {into}, dim: 0}}", *ends


def _is_stack(many: Kind, one: Kind) -> bool:
    """Whether the last number of `many` is the first dimension of `one`."""
    groups: dict[Numbers, list[Shape]] = {}
    for numbers, shape in many.shapes.items():
        if not numbers:
            return False
        groups.setdefault(numbers[:-1], []).append(shape)
    return groups.keys() == one.shapes.keys() and all(
        one.shapes[numbers] == (len(shapes), *shapes[0]) and len(set(shapes)) == 1
        for numbers, shapes in groups.items()
    )


def _renames(here: Sequence[Kind], there: Sequence[Kind]) -> list[tuple[Kind, Kind, list[str]]]:
    """Kinds of the same numbers and shapes, those that look most alike first; and what else would fit."""
    fits = {
        (a, b): _alike(one, other)
        for a, one in enumerate(here)
        for b, other in enumerate(there)
        if one.shapes == other.shapes
    }
    pairs: list[tuple[Kind, Kind, list[str]]] = []
    gone: tuple[set[int], set[int]] = set(), set()
    for a, b in sorted(fits, key=lambda pair: -fits[pair]):
        if a not in gone[0] and b not in gone[1]:
            gone[0].add(a)
            gone[1].add(b)
            others = [there[other].pattern for one, other in fits if one == a and other != b]
            pairs.append((here[a], there[b], others))
    return sorted(pairs, key=lambda pair: here.index(pair[0]))


def _rename_lines(pairs: Sequence[tuple[Kind, Kind, list[str]]]) -> Iterator[str]:
    if pairs:
        yield "- rename:"
    for one, other, others in pairs:
        also = f"  # or {', '.join(others[:3])}, of the same shape" if others else ""
        yield f"    {_quoted(one.pattern)}: {_quoted(other.pattern)}{also}"


def _alike(one: Kind, other: Kind) -> float:
    return SequenceMatcher(None, one.pattern, other.pattern, autojunk=False).ratio()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
