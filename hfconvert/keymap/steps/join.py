"""`join: {pattern: dim or replicated}`: slices of one tensor that ranks hold, `name@0`, `name@1`, ..."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from hfconvert.errors import Problem, UserError, raise_any, recipe_problem
from hfconvert.findings import Finding, info
from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.fold import listed
from hfconvert.keymap.made import Making, plain, readable, remade
from hfconvert.keymap.ranks import ranks_of, world_of
from hfconvert.keymap.rules import first_matches, parse_rules, unmatched
from hfconvert.keymap.shapes import check_alike, check_same
from hfconvert.tensors.assemble import Same
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.simplify import side_by_side

To = int | Literal["replicated"]


def join(rules: Mapping[str, To], where: Where) -> StepFunction:
    """Put slices side by side along a dimension, in the order of ranks, or take the first of replicas.

    Patterns are of names without their `@rank`. Along a dimension every rank of the step has to have its
    slice; replicas are compared when they are read. UserError (exit 2) where ranks are missing, or dtypes
    or shapes do not fit.
    """
    patterns = list(rules)
    parsed = parse_rules(patterns, lambda *path: where(*(patterns[part] for part in path)))

    def step(checkpoint: Checkpoint) -> Applied:
        slices = ranks_of(checkpoint)
        chosen: dict[str, list[str]] = {text: [] for text in patterns}
        for base, number, _ in first_matches([rule.pattern for rule in parsed], slices):
            chosen[patterns[number]].append(base)
        texts = {rule.pattern.text: rule.subject for rule in parsed}
        hits = {text for text, found in chosen.items() if found}
        findings = unmatched(texts, hits, where())
        raise_any(
            problem
            for text, bases in chosen.items()
            if rules[text] != "replicated"
            for problem in _incomplete(bases, slices, where(text))
        )
        result = checkpoint
        problems: list[Problem] = []
        for text, bases in chosen.items():
            try:
                result = _joined(result, bases, slices, rules[text], where(text))
            except UserError as error:
                problems += error.problems
        raise_any(problems)
        said = [
            finding
            for text, bases in chosen.items()
            if rules[text] == "replicated"
            for finding in _on_some(bases, slices, where(text))
        ]
        return Applied(result, (*findings, *said))

    return step


def _joined(
    checkpoint: Checkpoint,
    bases: Sequence[str],
    slices: Mapping[str, Mapping[int, str]],
    to: To,
    subject: str,
) -> Checkpoint:
    by_base = {base: tuple(slices[base][rank] for rank in sorted(slices[base])) for base in bases}
    makings = [Making(names, (base,)) for base, names in by_base.items()]

    def make(tensors: Sequence[LazyTensor], making: Making) -> list[LazyTensor]:
        if to == "replicated":
            check_same(tensors)
            return [Same(tuple(tensors), making.given[0]) if len(tensors) > 1 else tensors[0]]
        check_alike(tensors, to)
        return [side_by_side(tensors, to)]

    label = "join replicated" if to == "replicated" else f"join dim {to}"
    accept = readable if to == "replicated" else plain
    return remade(checkpoint, makings, make, label, subject, accept=accept)


def _incomplete(
    bases: Sequence[str], slices: Mapping[str, Mapping[int, str]], subject: str
) -> Iterator[Problem]:
    """Names of which a rank has no slice: all have to have 0 to the highest rank of the checkpoint."""
    world = world_of(slices)
    short: dict[str, list[str]] = {}
    for base in bases:
        if len(slices[base]) < world:
            gaps = [str(rank) for rank in range(world) if rank not in slices[base]]
            short.setdefault(", ".join(gaps), []).append(base)
    for missing, names in short.items():
        yield recipe_problem(
            f"{listed(names)}: no slice of rank {missing}, of {world} ranks",
            why="a file is missing, or this tensor is whole on some ranks and not split",
            do="add the file; for a tensor that is whole write `replicated` for its pattern",
            subject=subject,
            check="names",
        )


def _on_some(
    bases: Sequence[str], slices: Mapping[str, Mapping[int, str]], subject: str
) -> Iterator[Finding]:
    world = world_of(slices)
    alone = [base for base in bases if len(slices[base]) < world]
    if alone:
        message = f"{listed(alone)}: on some of {world} ranks only, and whole there"
        yield info("names", subject, message)
