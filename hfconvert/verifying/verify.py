"""Prove somebody's conversion against its source: open both sides, pair their tensors, compare everything.

With a recipe, the source side is what the recipe plans; without one, the maps that are found by themselves
(`checks/correspond.py`) have to explain every name. Any difference is a failed check; nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from hfconvert.checks.correspond import Correspondence, correspond
from hfconvert.checks.found_dtypes import Pair, check_found_dtypes
from hfconvert.checks.held import Held
from hfconvert.checks.merge import hold_file, merge_check
from hfconvert.checks.result import Check
from hfconvert.checks.side_files import check_side_files
from hfconvert.checks.values import check_found_names, check_found_values
from hfconvert.console import Console
from hfconvert.errors import Exit, UserError, raise_any
from hfconvert.findings import Finding, info
from hfconvert.machine import peak_memory_bytes, versions
from hfconvert.planning.configure import torch_name
from hfconvert.planning.decide import Tie
from hfconvert.proving.models import Allowed
from hfconvert.readers.config import DTYPE
from hfconvert.readers.layout import find_layouts
from hfconvert.readers.load import Wanted
from hfconvert.recipe import Location, Recipe, parse_location
from hfconvert.report.model import Paired, Report
from hfconvert.sourcing import Place, fetch_location
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.unreadable import Unreadable
from hfconvert.verifying.model import check_model
from hfconvert.verifying.sides import Side, open_found, open_source

_NOTHING_ALLOWED = Allowed()


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of a comparison."""

    checks: tuple[Check, ...]
    findings: tuple[Finding, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)  # of libraries in other processes
    pairs: Mapping[str, str] = field(default_factory=dict)  # the candidate's names, the source's


def verify(
    source: str,
    candidate: str,
    recipe: Recipe | None,
    console: Console,
    allowed: Allowed = _NOTHING_ALLOWED,
) -> Report:
    """Compare a candidate with its source; the report's status is `verified` or `failed`.

    UserError where the source cannot be read, or where there is nothing at either place. What is wrong with
    the candidate's own files is a failed check.
    """
    started = time.perf_counter()
    ours_at = parse_location(source, subject="SOURCE")
    theirs_at = parse_location(candidate, subject="CANDIDATE")
    if theirs_at.path is not None and not theirs_at.path.exists():
        open_found(Place(theirs_at.path))  # raises: there is nothing
    ours = open_source(ours_at, recipe)
    raise_any(tensor.problem for tensor in ours.tensors.values() if isinstance(tensor, Unreadable))
    try:
        theirs = open_found(fetch_location(theirs_at), Wanted(compare_twin=False))
    except UserError as error:
        if error.exit > Exit.SOURCE:  # the Hub or this machine: nothing is said of the candidate
            raise
        return _report(ours, _unopened(theirs_at), started, _unusable(error))
    proof = _compare(ours, theirs, console, allowed)
    said = (*ours.findings, *theirs.findings, *proof.findings, *_unknown(ours, proof))
    report = _report(ours, theirs.document(), started, replace(proof, findings=said))
    return replace(report, paired=tuple(_paired(ours, theirs, proof.pairs)))


def _unknown(ours: Side, proof: Proof) -> Iterator[Finding]:
    """What may lie between two sides that differ, where no recipe says it."""
    failed = {check.name for check in proof.checks if check.status == "fail"}
    if ours.plan is None and failed & {"names", "tensors"}:
        message = (
            "without a recipe, casts, wrappers and one prefix are all that is known to lie between; "
            "where a map or merge was meant, verify with --recipe"
        )
        yield info("names", "", message)


def _paired(ours: Side, theirs: Side, pairs: Mapping[str, str]) -> Iterator[Paired]:
    """The pairs; where a recipe casts, with the dtype of before."""
    known = ours.plan.before if ours.plan else {}
    for name, origin in pairs.items():
        planned = ours.tensors[origin].spec
        before = replace(planned, dtype=BY_CODE.get(known.get(origin, ""), planned.dtype))
        yield Paired(name, theirs.tensors[name].spec, origin, before)


def _unopened(candidate: Location) -> dict[str, Any]:
    path = None if candidate.path is None else str(candidate.path)
    return {"repo": candidate.repo, "commit": None, "path": path}


def _unusable(error: UserError) -> Proof:
    """The candidate's files are damaged, incomplete, or contradict each other."""
    detail = "; ".join(
        f"{problem.subject}: {problem.what}" if problem.subject else problem.what
        for problem in error.problems
    )
    findings = tuple(problem.finding() for problem in error.problems)
    return Proof((Check("names", "fail", detail=detail),), findings)


def compare_weights(ours: Side, theirs: Side, console: Console, *, planned: bool) -> Proof:
    """Compare the tensors of both sides: names and shapes, every value, dtypes.

    `planned` says that the source's side is what a recipe makes of it, so that nothing is left to be found.
    """
    found = _without_ties(correspond(ours.tensors, theirs.tensors), ours, theirs)
    names, named = check_found_names(ours.tensors, theirs.tensors, found, _rivals(theirs))
    sums = _sums(ours, theirs)
    equal = {name: origin for name, origin in found.pairs.items() if name not in sums}
    total = sum(theirs.tensors[name].spec.nbytes for name in equal)
    with console.progress("verify", total) as advance:
        values, valued = check_found_values(ours.tensors, theirs.tensors, equal.items(), advance)
    merge = _merge(ours, theirs) if sums else ()
    pairs = [
        Pair(name, ours.tensors[origin].spec.dtype, theirs.tensors[name].spec.dtype)
        for name, origin in found.pairs.items()
    ]
    dtypes, cast = check_found_dtypes(pairs, _said_dtype(theirs.config), planned=planned)
    checks = (names, values, *merge, dtypes)
    return Proof(checks, (*named, *valued, *cast), pairs=found.pairs)


def _compare(ours: Side, theirs: Side, console: Console, allowed: Allowed) -> Proof:
    weights = compare_weights(ours, theirs, console, planned=ours.plan is not None)
    files, filed = _files(ours, theirs)
    done = (*weights.checks, files)
    model = check_model(ours, theirs, weights.pairs, allowed, done)
    return Proof(
        (*done, *model.checks),
        (*weights.findings, *filed, *model.findings),
        model.versions,
        weights.pairs,
    )


def _sums(ours: Side, theirs: Side) -> frozenset[str]:
    """Merged tensors that are held against their exact sums: others merge by other arithmetic than ours."""
    if ours.plan is None or theirs.format != "safetensors":
        return frozenset()
    return frozenset(ours.plan.merges.sums)


def _merge(ours: Side, theirs: Side) -> tuple[Check, ...]:
    if ours.plan is None:
        return ()
    merges = ours.plan.merges
    files = (hold_file(file.path, file.name, merges) for file in theirs.weights)
    return (merge_check(reduce(Held.__add__, files, Held()), merges),)


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


def _report(ours: Side, candidate: Mapping[str, Any], started: float, proof: Proof) -> Report:
    failed = any(check.status == "fail" for check in proof.checks)
    return Report(
        status="failed" if failed else "verified",
        plan=None,
        output=None,
        digest=None,
        source=ours.document(),
        candidate=candidate,
        pickles=ours.pickles,
        checks=proof.checks,
        findings=proof.findings,
        versions={**versions(), **proof.versions},
        seconds=time.perf_counter() - started,
        peak_memory_bytes=peak_memory_bytes(),
    )
