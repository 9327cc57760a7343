"""Weights in pickles with safetensors beside them: both are opened, and every value is compared."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hfconvert.console import Console
from hfconvert.errors import Problem, UserError, values_problem
from hfconvert.findings import Finding
from hfconvert.gate.tree import Tree, WeightSet
from hfconvert.readers.load import Wanted
from hfconvert.sourcing import Place
from hfconvert.verifying.sides import Side, open_found
from hfconvert.verifying.verify import Proof, compare_weights


@dataclass(frozen=True, slots=True)
class Pair:
    """Weights in pickles, and the safetensors of the same folder that should hold the same."""

    pickled: WeightSet
    safe: WeightSet


@dataclass(frozen=True, slots=True)
class Proved:
    """What came of comparing all the pairs."""

    problems: tuple[Problem, ...]
    findings: tuple[Finding, ...]
    measured: Mapping[str, Any]  # empty where there was nothing to compare


def pairs(tree: Tree, pickled: Sequence[WeightSet]) -> tuple[Pair, ...]:
    """Each of these sets of pickled weights with the safetensors that loaders would read in its place."""
    found = []
    for one in pickled:
        beside = [other for other in tree.safetensors if other.folder == one.folder]
        if beside:
            twin = (other for other in beside if _stem(other) == _stem(one))
            found.append(Pair(one, next(twin, beside[0])))
    return tuple(found)


def prove(tree: Tree, found: Sequence[Pair], console: Console) -> Proved:
    """Compare every value of every pair. What cannot be compared is not proved."""
    root = _fetched(tree, found)
    problems: list[Problem] = []
    findings: list[Finding] = []
    counted = dict.fromkeys(("tensors", "values", "different"), 0)
    for pair in found:
        try:
            proof = _compared(root, pair, console)
        except UserError as error:
            problems.append(_unproved(pair, "; ".join(one.what for one in error.problems)))
            findings += [_of(pair, one.finding()) for one in error.problems]
            continue
        failed = [one for one in proof.checks if one.status == "fail"]
        if failed:
            detail = "; ".join(f"{one.name}: {one.detail}" for one in failed)
            problems.append(_unproved(pair, detail))
        findings += proof.findings
        for check in proof.checks:
            if check.name == "tensors":
                counted = {key: counted[key] + check.measured[key] for key in counted}
    measured = {"sets": len(found), **counted} if found else {}
    return Proved(tuple(problems), tuple(findings), measured)


def _compared(root: Path, pair: Pair, console: Console) -> Proof:
    ours, theirs = _opened(root, pair.pickled), _opened(root, pair.safe)
    proof = compare_weights(ours, theirs, console, planned=False)
    said = (*ours.findings, *theirs.findings, *proof.findings)
    return replace(proof, findings=tuple(_of(pair, one) for one in said))


def _of(pair: Pair, said: Finding) -> Finding:
    """The finding with the file that it is about: several folders have tensors of the same names."""
    subject = f"{pair.safe.label}: {said.subject}" if said.subject else pair.safe.label
    return replace(said, subject=subject)


def _opened(root: Path, one: WeightSet) -> Side:
    index = one.layout.index
    names = (index.file,) if index else one.layout.files
    wanted = Wanted(
        files=tuple(map(glob.escape, names)),
        refuse_dangerous=False,  # a rule of its own; nothing of a pickle is ever run
    )
    return open_found(Place(root / one.folder), wanted)


def _fetched(tree: Tree, found: Sequence[Pair]) -> Path:
    """The local folder that holds the weights of the pairs; a repository's are fetched."""
    if tree.snapshot is None:
        return tree.root
    from hfconvert.hub.source import fetch_all  # noqa: PLC0415 - huggingface_hub, where it is needed

    fetch_all(tree.snapshot, dict.fromkeys(_places(found)))
    return tree.root


def _places(found: Sequence[Pair]) -> Iterator[str]:
    for pair in found:
        for one in (pair.pickled, pair.safe):
            yield from (file.file.name for file in one.files)


def _stem(one: WeightSet) -> str:
    """What is left of the name where safetensors and pickles of one model are called otherwise."""
    return one.layout.stem.replace("pytorch_model", "model")


def _unproved(pair: Pair, why: str) -> Problem:
    return values_problem(
        f"not proved to hold what {pair.pickled.label} holds",
        why=why,
        do=f"convert {pair.pickled.label} with `hfconvert run`, name the recipe that made this, "
        "or remove one of the two",
        subject=pair.safe.label,
        check="proof",
    )
