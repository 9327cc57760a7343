"""Giving tensors other names: collisions and impossible names are found here, for every step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hfconvert.errors import Problem, raise_any, recipe_problem
from hfconvert.keymap.fold import listed
from hfconvert.tensors.checkpoint import Checkpoint, Entry
from hfconvert.tensors.header import METADATA

SHOWN = 4  # colliding names that a message lists one by one

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def moved(
    checkpoint: Checkpoint, names: Mapping[str, str], label: str | Mapping[str, str], subject: str
) -> Checkpoint:
    """The checkpoint with the tensors of `names` (old to new) renamed, all at once, in the same order.

    `label` is how the step is recorded in the entries: one for all, or one for each old name. UserError
    (exit 2) about `subject` where two tensors would have one name, or a new name cannot be one.
    """
    pairs = [(names.get(name, name), name) for name in checkpoint.entries]
    distinct = len({new for new, _ in pairs})
    raise_any([*shared_names(pairs, distinct, subject), *invalid(names.values(), subject)])
    entries: dict[str, Entry] = {}
    for name, entry in checkpoint.entries.items():
        if name in names:
            said = label if isinstance(label, str) else label[name]
            entries[names[name]] = Entry(entry.tensor, entry.sources, (*entry.steps, said))
        else:
            entries[name] = entry
    return checkpoint.with_entries(entries)


def invalid(names: Iterable[str], subject: str) -> Iterator[Problem]:
    """A problem (exit 2) for the names that no tensor of a safetensors file can have, if there are any."""
    bad = [name for name in names if not name or name == METADATA or _CONTROL.search(name)]
    if bad:
        yield recipe_problem(
            f"{len(bad)} tensors would have a name that no file can hold: {listed(bad)}",
            why=f"a name is not empty, not `{METADATA}`, and has no control characters",
            do="rename or drop them",
            subject=subject,
            check="names",
        )


def shared_names(
    pairs: Sequence[tuple[str, str]], distinct: int, subject: str
) -> Iterator[Problem]:
    """A problem (exit 2) for the new names that several tensors would have; `pairs` are (new, old) names.

    `distinct` is how many different new names there are: as many as pairs where all is well.
    """
    if distinct == len(pairs):
        return
    owners: dict[str, list[str]] = {}
    for new, old in pairs:
        owners.setdefault(new, []).append(old)
    twice = {new: old for new, old in owners.items() if len(old) > 1}
    yield recipe_problem(
        f"{len(twice)} names would stand for several tensors each: {_pairs(twice)}",
        why="the rules give two tensors one name, or the name of one that they leave as it is",
        do="map them to different names, or drop one of them",
        subject=subject,
        check="names",
    )


def _pairs(twice: Mapping[str, list[str]]) -> str:
    """The colliding names with their sources: one by one where they are few, folded otherwise."""
    if len(twice) <= SHOWN:
        return "; ".join(f"{listed([name])} from {listed(old)}" for name, old in twice.items())
    sources = [name for old in twice.values() for name in old]
    return f"{listed(twice)} from {listed(sources)}"
