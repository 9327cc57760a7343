"""Tensors that a step makes out of others: one out of several, or several out of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from hfconvert.errors import Problem, UserError, raise_any, recipe_problem
from hfconvert.keymap.fold import listed
from hfconvert.keymap.move import invalid, shared_names
from hfconvert.tensors.checkpoint import Checkpoint, Entry
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.unreadable import Unreadable

Given = Sequence[tuple[str, Entry]]  # new names with their tensors


class UnfitError(Exception):
    """Tensors that a step cannot work on: what is wrong, why probably, what to do."""

    def __init__(self, what: str, *, why: str, do: str) -> None:
        super().__init__(what)
        self.beats = what, why, do


@dataclass(frozen=True, slots=True)
class Making:
    """What a step makes at one place: names of the tensors that it takes, and of those that it gives."""

    taken: tuple[str, ...]
    given: tuple[str, ...]


Make = Callable[[Sequence[LazyTensor], Making], Sequence[LazyTensor]]  # UnfitError where it cannot


def readable(tensor: LazyTensor) -> LazyTensor:
    """The tensor, when it can be read. UserError otherwise."""
    if isinstance(tensor, Unreadable):
        raise UserError(tensor.problem)
    return tensor


def plain(tensor: LazyTensor) -> LazyTensor:
    """The tensor, when its elements can be told apart. UserError or UnfitError otherwise."""
    if readable(tensor).spec.dtype.kind == "packed":
        raise UnfitError(
            f"{tensor.spec.dtype} packs several elements into a byte: it cannot be rearranged",
            why="the weights are quantised, and their layout is that of the library that packed them",
            do="leave them out of the pattern, or convert the checkpoint that was quantised",
        )
    return tensor


def remade(
    checkpoint: Checkpoint,
    makings: Sequence[Making],
    make: Make,
    label: str,
    subject: str,
    *,
    accept: Callable[[LazyTensor], LazyTensor] = plain,
) -> Checkpoint:
    """The checkpoint with what `make` gives for the taken tensors, where the first of them stood.

    UserError with everything that is wrong, about `subject`: tensors that do not fit (those of one kind in
    one problem) or that `accept` refuses, names that collide or cannot be.
    """
    given: dict[str, Given] = {}
    unfit: dict[tuple[str, str, str], list[str]] = {}
    problems: list[Problem] = []
    for making in makings:
        entries = [checkpoint[name] for name in making.taken]
        try:
            tensors = make([accept(entry.tensor) for entry in entries], making)
        except UnfitError as error:
            unfit.setdefault(error.beats, []).append(making.taken[0])
            continue
        except UserError as error:
            problems += error.problems
            continue
        derived = _derived(tensors, entries, label)
        given[making.taken[0]] = list(zip(making.given, derived, strict=True))
    raise_any([*problems, *_unfit(unfit, subject)])
    taken = {name for making in makings for name in making.taken}
    return _exchanged(checkpoint, taken, given, subject)


def merged_steps(entries: Iterable[Entry]) -> tuple[str, ...]:
    """The steps that several tensors took, each once, in order."""
    return tuple(dict.fromkeys(chain.from_iterable(entry.steps for entry in entries)))


def merged_sources(entries: Iterable[Entry]) -> tuple[str, ...]:
    """The source tensors that several tensors come from, each once, in order."""
    return tuple(dict.fromkeys(chain.from_iterable(entry.sources for entry in entries)))


def _exchanged(
    checkpoint: Checkpoint,
    taken: set[str],
    given: Mapping[str, Given],
    subject: str,
) -> Checkpoint:
    """The checkpoint without what was taken, and with what was given for it, by the name it stands for."""
    names: list[tuple[str, str]] = []  # each new name with the one that it stands for
    entries: dict[str, Entry] = {}
    for name, entry in checkpoint.entries.items():
        if name not in taken:
            entries[name] = entry
            names.append((name, name))
        for new, made in given.get(name, ()):
            entries[new] = made
            names.append((new, name))
    new_names = (new for made in given.values() for new, _ in made)
    raise_any([*shared_names(names, len(entries), subject), *invalid(new_names, subject)])
    return checkpoint.with_entries(entries)


def _derived(
    tensors: Sequence[LazyTensor], entries: Sequence[Entry], label: str
) -> Iterator[Entry]:
    sources, steps = merged_sources(entries), (*merged_steps(entries), label)
    return (Entry(tensor, sources, steps) for tensor in tensors)


def _unfit(found: Mapping[tuple[str, str, str], Sequence[str]], subject: str) -> Iterator[Problem]:
    for (what, why, do), names in found.items():
        yield recipe_problem(
            f"{listed(names)}: {what}", why=why, do=do, subject=subject, check="names"
        )
