"""Prove somebody's conversion against its source: open both sides, pair their tensors, compare everything.

With a recipe, the source side is what the recipe plans; without one, the maps that are found by themselves
(`checks/correspond.py`) have to explain every name. Any difference is a failed check; nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hfconvert.checks.correspond import Correspondence, correspond
from hfconvert.checks.found_dtypes import Pair, check_found_dtypes
from hfconvert.checks.result import Check
from hfconvert.checks.side_files import Expected, check_side_files
from hfconvert.checks.values import check_found_names, check_found_values
from hfconvert.configure import torch_name
from hfconvert.console import Console
from hfconvert.decide import Tie, decide
from hfconvert.errors import UserError, raise_any
from hfconvert.findings import Finding, info
from hfconvert.keymap.applied import Applied
from hfconvert.machine import peak_memory_bytes, versions
from hfconvert.plan import make_plan
from hfconvert.readers.assets import gather
from hfconvert.readers.config import DTYPE, read_config
from hfconvert.readers.layout import find_layouts
from hfconvert.readers.load import Found, Wanted, load
from hfconvert.readers.origin import Origin
from hfconvert.recipe import Recipe
from hfconvert.recipe.location import parse_location
from hfconvert.report.model import Report
from hfconvert.report.pickles import pickle_documents
from hfconvert.sourcing import Place, fetch_location
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.source import SourceFile
from hfconvert.tensors.unreadable import Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two: its tensors under all their names, which of those are ties, and its side files."""

    path: Path
    origin: Origin | None
    format: str
    weights: tuple[SourceFile, ...]
    tensors: Mapping[str, LazyTensor]
    ties: tuple[Tie, ...]
    config: Mapping[str, Any] | None
    files: Expected
    pickles: tuple[Mapping[str, Any], ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def is_folder(self) -> bool:
        """Whether the side is a folder, which has side files, or one file."""
        return self.path.is_dir()

    def document(self) -> dict[str, Any]:
        """The side as a report names it."""
        return {
            "repo": self.origin.repo if self.origin else None,
            "commit": self.origin.commit if self.origin else None,
            "path": None if self.origin else str(self.path),
            "format": self.format,
            "files": [{"file": file.name, "size": file.size} for file in self.weights],
        }


def verify(source: str, candidate: str, recipe: Recipe | None, console: Console) -> Report:
    """Compare a candidate with its source; the report's status is `verified` or `failed`.

    UserError where the source cannot be read, or where there is nothing at either place. What is wrong with
    the candidate's own files is a failed check.
    """
    started = time.perf_counter()
    ours_at, theirs_at = _place(source, "SOURCE"), _place(candidate, "CANDIDATE")
    ours = _found_side(ours_at) if recipe is None else _planned_side(ours_at, recipe)
    raise_any(tensor.problem for tensor in ours.tensors.values() if isinstance(tensor, Unreadable))
    if not theirs_at.path.exists():
        _found_side(theirs_at)  # raises: there is nothing
    try:
        theirs = _found_side(theirs_at, compare_twin=False)
    except UserError as error:
        return _report(ours, candidate, started, *_unusable(error))
    checks, findings = _compare(ours, theirs, console, planned=recipe is not None)
    said = (*ours.findings, *theirs.findings, *findings)
    return replace(_report(ours, candidate, started, checks, said), candidate=theirs.document())


def _place(text: str, what: str) -> Place:
    return fetch_location(parse_location(text, subject=what))


def _found_side(place: Place, *, compare_twin: bool = True) -> Side:
    """A folder or file as it is."""
    path = place.path
    found = load(path, Wanted(compare_twin=compare_twin))
    config = read_config(found.root)
    decided = decide(Applied(found.checkpoint), config)
    assets = gather(found.root, [one.source.name for one in found.files], alone=path.is_file())
    return Side(
        path=path,
        origin=place.origin,
        format=found.format,
        weights=tuple(file.source for file in found.files),
        tensors={name: entry.tensor for name, entry in found.checkpoint.items()},
        ties=decided.ties,
        config=config,
        files=Expected({file.name: file for file in assets.copied}, {}),
        pickles=tuple(_pickles(found)),
        findings=found.findings,
    )


def _planned_side(place: Place, recipe: Recipe) -> Side:
    """What the recipe makes of the source: tensors, ties and side files of its plan."""
    path = place.path
    source = recipe.source.model_copy(update={"path": path, "repo": None})
    plan = make_plan(recipe.model_copy(update={"source": source}), place.origin)
    tensors = {
        placed.name: placed.entry.tensor for shard in plan.shards for placed in shard.tensors
    }
    tensors |= {tie.dropped: tensors[tie.kept] for tie in plan.ties if tie.kept in tensors}
    return Side(
        path=path,
        origin=place.origin,
        format=plan.format,
        weights=plan.sources,
        tensors=tensors,
        ties=plan.ties,
        config=None,
        files=Expected(
            {file.name: file for file in plan.copies},
            {one.source.name: one.content for one in plan.rewritten},
        ),
        pickles=tuple(pickle_documents(plan.pickles)),
        findings=plan.findings,
    )


def _pickles(found: Found) -> list[dict[str, Any]]:
    facts = [(file.source.name, file.contents.pickle) for file in found.files]
    return pickle_documents((name, pickle) for name, pickle in facts if pickle)


def _unusable(error: UserError) -> tuple[tuple[Check, ...], tuple[Finding, ...]]:
    """The candidate's files are damaged, incomplete, or contradict each other."""
    detail = "; ".join(
        f"{problem.subject}: {problem.what}" if problem.subject else problem.what
        for problem in error.problems
    )
    findings = tuple(problem.finding() for problem in error.problems)
    return (Check("names", "fail", detail=detail),), findings


def _compare(
    ours: Side, theirs: Side, console: Console, *, planned: bool
) -> tuple[tuple[Check, ...], tuple[Finding, ...]]:
    found = _without_ties(correspond(ours.tensors, theirs.tensors), ours, theirs)
    names, named = check_found_names(ours.tensors, theirs.tensors, found, _rivals(theirs))
    total = sum(theirs.tensors[name].spec.nbytes for name in found.pairs)
    with console.progress("verify", total) as advance:
        values, valued = check_found_values(
            ours.tensors, theirs.tensors, found.pairs.items(), advance
        )
    pairs = [
        Pair(name, ours.tensors[origin].spec.dtype, theirs.tensors[name].spec.dtype)
        for name, origin in found.pairs.items()
    ]
    dtypes, cast = check_found_dtypes(pairs, _said_dtype(theirs.config), planned=planned)
    files, filed = _files(ours, theirs)
    return (names, values, files, dtypes), (*named, *valued, *filed, *cast)


def _without_ties(found: Correspondence, ours: Side, theirs: Side) -> Correspondence:
    """Names that only ties account for are neither missing nor added."""
    present = set(found.pairs.values())
    missing, added, said = [], [], []
    for name in found.missing:
        other = _present_twin(name, ours.ties, present)
        if other is None:
            missing.append(name)
        else:
            said.append(info("ties", name, f"is {other} in the source too, and is stored once"))
    for name in found.added:
        other = _present_twin(name, theirs.ties, set(found.pairs))
        if other is None:
            added.append(name)
        else:
            said.append(info("ties", name, f"is {other} here too; the source stores it once"))
    return Correspondence(found.pairs, tuple(missing), tuple(added), (*found.findings, *said))


def _present_twin(name: str, ties: tuple[Tie, ...], present: set[str]) -> str | None:
    """Another name of the same tensor that is there."""
    group = next((tie.kept for tie in ties if name in (tie.kept, tie.dropped)), None)
    if group is None:
        return None
    names = [group, *(tie.dropped for tie in ties if tie.kept == group)]
    return next((other for other in names if other != name and other in present), None)


def _rivals(side: Side) -> list[str]:
    """Weights that a loader would read in place of those that were compared."""
    if not side.is_folder:
        return []
    names = sorted(path.name for path in side.path.iterdir() if path.is_file())
    best, *others = find_layouts(side.path, names)
    return [
        f"{other.label} lies beside {best.label}: loaders read it, and it was not compared"
        for other in others
        if other.family == best.family and other.stem == best.stem
    ]


def _said_dtype(config: Mapping[str, Any] | None) -> str | None:
    said = [torch_name(config.get(key)) for key in DTYPE] if config else []
    return next((name for name in said if name), None)


def _files(ours: Side, theirs: Side) -> tuple[Check, tuple[Finding, ...]]:
    if not (ours.is_folder and theirs.is_folder):
        return Check("files", "skipped", detail="one side is a single file"), ()
    dtypes = {
        tensor.spec.dtype.torch
        for tensor in theirs.tensors.values()
        if tensor.spec.dtype.kind == "float"
    }
    return check_side_files(ours.files, theirs.files.files, dtypes)


def _report(
    ours: Side,
    candidate: str,
    started: float,
    checks: tuple[Check, ...],
    findings: tuple[Finding, ...],
) -> Report:
    failed = any(check.status == "fail" for check in checks)
    return Report(
        status="failed" if failed else "verified",
        plan=None,
        output=None,
        digest=None,
        source=ours.document(),
        candidate={"path": candidate},
        pickles=ours.pickles,
        checks=checks,
        findings=findings,
        versions=versions(),
        seconds=time.perf_counter() - started,
        peak_memory_bytes=peak_memory_bytes(),
    )
