"""Steps that make plain tensors of those that cannot be read as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from hfconvert.errors import Problem, raise_any, recipe_problem, source_problem
from hfconvert.keymap.applied import Applied
from hfconvert.keymap.fold import listed
from hfconvert.keymap.rules import Rule, first_matches, unmatched
from hfconvert.tensors.checkpoint import Checkpoint, Entry
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.unreadable import Unreadable


class Plainer(Protocol):
    """What a step can make plain, and how."""

    step: str  # its name in the recipe
    kind: str  # what it makes plain: `quantised`, `sparse`

    def is_kind(self, tensor: Unreadable) -> bool:
        """Whether the tensor is of the kind."""

    def unfit(self, tensor: Unreadable) -> str:
        """Why a tensor of the kind cannot be made plain; nothing where it can."""

    def make(self, tensor: Unreadable, name: str) -> LazyTensor:
        """The plain tensor."""


def plained(
    checkpoint: Checkpoint, rules: Sequence[Rule], plainer: Plainer, subject: str
) -> Applied:
    """Every tensor of the kind that a rule covers, made plain; others that it covers stay as they are.

    UserError: exit 2 where no rule covers a tensor of the kind, exit 3 where one cannot be made plain.
    """
    covered = [
        (name, rules[number].pattern.text)
        for name, number, _ in first_matches([rule.pattern for rule in rules], checkpoint)
    ]
    findings = unmatched(
        {rule.pattern.text: rule.subject for rule in rules}, {text for _, text in covered}, subject
    )
    chosen: dict[str, Unreadable] = {}
    for name, _ in covered:
        tensor = checkpoint[name].tensor
        if isinstance(tensor, Unreadable) and plainer.is_kind(tensor):
            chosen[name] = tensor
    raise_any([_nothing([name for name, _ in covered], plainer, subject)] if not chosen else [])
    raise_any(_unfit(chosen, plainer))
    entries = {name: _made(name, entry, chosen, plainer) for name, entry in checkpoint.items()}
    return Applied(checkpoint.with_entries(entries), findings)


def _made(name: str, entry: Entry, chosen: Mapping[str, Unreadable], plainer: Plainer) -> Entry:
    if name not in chosen:
        return entry
    tensor = plainer.make(chosen[name], name)
    return Entry(tensor, entry.sources, (*entry.steps, plainer.step))


def _nothing(names: Sequence[str], plainer: Plainer, subject: str) -> Problem:
    return recipe_problem(
        f"none of {listed(names)} is {plainer.kind}",
        why="they are plain tensors, or of another kind",
        do="remove the step, or name the tensors that `hfconvert plan` says are",
        subject=subject,
        check="names",
    )


def _unfit(chosen: Mapping[str, Unreadable], plainer: Plainer) -> Iterator[Problem]:
    for name, tensor in chosen.items():
        why = plainer.unfit(tensor)
        if why:
            yield source_problem(
                f"it is {plainer.kind}, but {why}",
                why="another library wrote it, or the file is damaged",
                do="drop it, or make it plain in torch and save the checkpoint again",
                subject=name,
                check="tensors",
            )
