"""What a recipe would say, from what `inspect` found: sure choices, and unsure ones with reasons."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hfconvert.errors import UserError
from hfconvert.keymap.families.table import family_names, read_table
from hfconvert.keymap.patterns import Pattern
from hfconvert.keymap.prefixes import WRAPPERS, Prefixes
from hfconvert.readers.load import Wanted, load
from hfconvert.report.sizes import counted, human

_CHOICE = "weights"  # the subject of the problem that says that a set has to be chosen
_WIDE = ("F32", "F64")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the recipe with the reason behind it; an alternative is written as a comment."""

    text: str
    reason: str = ""
    alternative: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The parts of a recipe, in their order."""

    found: str
    source: tuple[Line, ...]
    key_map: tuple[Line, ...]
    dtype: tuple[Line, ...]
    rest: tuple[Line, ...]


def propose(document: Mapping[str, Any], path: Path | None) -> Proposal:
    """The proposal for a document of `inspect`; `path` where it is of a local folder or file.

    UserError where nothing could be converted, whatever the recipe says.
    """
    chosen, sets = _weights(document, path)
    names = _names(document, chosen)
    steps, stripped = _wrappers(names)
    adapter = document["kind"] == "adapter"  # PEFT wants the first part of its names as it is
    return Proposal(
        found=_found(document),
        source=(*sets, *_dangerous(document)),
        key_map=(*steps, *(() if adapter else _prefix(stripped)), *_families(stripped)),
        dtype=tuple(_dtype(document)),
        rest=tuple(_adapter(document)),
    )


def _found(document: Mapping[str, Any]) -> str:
    totals = document["totals"]
    library = f", for {document['library']}" if document["library"] else ""
    weights = [one for one in document["tensors"] if one["role"] == "weights"]
    size = human(sum(one["bytes"] for one in weights))
    parameters = f"{totals['parameters']:,} parameters"
    return (
        f"{document['kind']}, {document['format'] or 'unknown format'}{library}: "
        f"{counted(len(weights), 'tensor')}, {parameters}, {size}"
    )


def _weights(document: Mapping[str, Any], path: Path | None) -> tuple[str | None, list[Line]]:
    """The set of weights to choose, where the format leaves it open: the largest."""
    sets = [one for one in document["weights"] if one["tensors"]]
    if len(sets) < 2 or path is None:
        return None, []
    try:
        load(path, Wanted(where_weights=_CHOICE, refuse_dangerous=False, compare_twin=False))
    except UserError as error:
        if not any(problem.subject == _CHOICE for problem in error.problems):
            raise
    else:
        others = ", ".join(one["name"] or "(top)" for one in sets[1:])
        return None, [
            Line(
                f"weights: {_text(sets[1]['name'])}",
                f"the format says which set is the model; beside it: {others}",
                alternative=True,
            )
        ]
    best = max(sets, key=lambda one: one["bytes"])
    told = ", ".join(f"{one['name'] or '(top)'} {human(one['bytes'])}" for one in sets)
    lines = [Line(f"weights: {_text(best['name'])}", f"the largest of {len(sets)} sets: {told}")]
    lines += [
        Line(f"weights: {_text(one['name'])}", "another set of the same file", alternative=True)
        for one in sets
        if one is not best
    ]
    return str(best["name"]), lines


def _names(document: Mapping[str, Any], chosen: str | None) -> list[str]:
    """The names of the weights, without the set's prefix where there are several."""
    names = [one["name"] for one in document["tensors"] if one["role"] == "weights"]
    sets = document["weights"]
    if len(sets) < 2:
        return names
    prefix = f"{chosen if chosen is not None else sets[0]['name']}."
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)] or names


def _wrappers(names: Sequence[str]) -> tuple[list[Line], list[str]]:
    """Wrappers that every name carries or that stand inside names; and the names without them."""
    found, lines = [], []
    for wrapper in WRAPPERS:
        front = sum(name.startswith(wrapper) for name in names)
        carried = sum(f".{wrapper}" in f".{name}" for name in names)
        if front and carried < len(names):
            reason = f"at the front of {front} of {len(names)} names only"
            lines.append(Line(f"- strip_prefix: [{wrapper}]", reason, alternative=True))
        elif carried:
            found.append(wrapper)
    stripped = [Prefixes.of(found).take_off(name).name for name in names]
    if found and len(set(stripped)) == len(names):
        reason = "put there by DataParallel, torch.compile, DeepSpeed or FSDP"
        return [Line(f"- strip_prefix: [{', '.join(found)}]", reason), *lines], stripped
    return lines, list(names)


def _prefix(names: Sequence[str]) -> Iterator[Line]:
    """A first part that all names have: the attribute of a training module, or the model's own."""
    first = {name.partition(".")[0] for name in names}
    if len(first) == 1 and len(names) > 1 and all("." in name for name in names):
        (part,) = first
        reason = "all names begin with it; take it off if the target's names do not"
        yield Line(f"- strip_prefix: [{_text(part + '.')}]", reason, alternative=True)


def _families(names: Sequence[str]) -> Iterator[Line]:
    for family in family_names():
        table, _ = read_table(family, "")
        patterns = [Pattern.parse(text) for text in table.signature]
        if all(any(pattern.covers(name) for name in names) for pattern in patterns):
            yield Line(f"- family: {{name: {family}}}", table.about, alternative=not table.certain)


def _dtype(document: Mapping[str, Any]) -> Iterator[Line]:
    yield Line("dtype: keep")
    by_dtype = document["totals"]["by_dtype"]
    wide = sum(by_dtype.get(code, 0) for code in _WIDE)
    if wide and wide * 2 > sum(by_dtype.values()):
        reason = f"the weights are {max(by_dtype, key=by_dtype.get)}; half the size, and less exact"
        yield Line("dtype: bfloat16", reason, alternative=True)


def _dangerous(document: Mapping[str, Any]) -> Iterator[Line]:
    for pickle in document["pickle"]:
        if pickle["dangerous"]:
            asked = ", ".join(f"{one['module']}.{one['name']}" for one in pickle["dangerous"])
            reason = f"{pickle['file']} asks for {asked}; nothing of it is run either way"
            yield Line("refuse_dangerous: false", reason, alternative=True)
            return


def _adapter(document: Mapping[str, Any]) -> Iterator[Line]:
    """How an adapter is merged: by a recipe of its base."""
    lora = document["lora"]
    if document["kind"] != "adapter" or not lora:
        return
    base = lora.get("base") or "org/base"
    yield Line("lora:", f"to merge it, make {base} the source and name this", alternative=True)
    yield Line("  adapters: [{adapter: ./this}]", alternative=True)


def _text(value: str) -> str:
    plain = value and all(letter.isalnum() or letter in "._-/" for letter in value)
    return value if plain and not value[0].isdigit() else json.dumps(value)
