"""All the rules over one tree, and the report of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from hfconvert.checks.result import Check
from hfconvert.console import Console
from hfconvert.errors import Problem
from hfconvert.findings import Finding, info
from hfconvert.gate.current import Held, hold, outside
from hfconvert.gate.proof import pairs, prove
from hfconvert.gate.record import records
from hfconvert.gate.rules import (
    imports,
    indexes,
    nothing,
    packed,
    pickles_only,
    unknown_imports,
    unread,
)
from hfconvert.gate.tree import Tree, WeightSet, open_tree
from hfconvert.inspect.listing import printable
from hfconvert.machine import peak_memory_bytes, versions
from hfconvert.recipe import Recipe
from hfconvert.report.model import Report
from hfconvert.report.pickles import pickle_documents

_CONSOLE = Console()
_Judged = tuple[Check, tuple[Finding, ...]]


def check(what: str, recipe: Recipe | None = None, console: Console = _CONSOLE) -> Report:
    """Judge a folder, a file, or `org/name[@revision]`; the report's status is `verified` or `failed`.

    It fails what publishes weights as pickles only, a pickle that asks for dangerous names, a wrong or
    absent index of safetensors, safetensors beside pickles that do not hold the same values, and whatever
    could not be read. Names of which nothing is known are warnings. With a recipe, its result has to be what
    it would make now; that result then speaks for the pickles that the recipe reads. Each broken rule is a
    finding of level error. UserError where there is nothing to look at, or the recipe cannot be planned.
    """
    started = time.perf_counter()
    tree = open_tree(what)
    held = hold(recipe, console) if recipe else None
    spoken = held is not None and not held.elsewhere
    empty = () if spoken else tuple(nothing(tree))
    pickled = outside(tree, held.planned) if held and spoken else tree.pickled
    counts = {"safetensors": len(tree.safetensors), "pickles": len(tree.pickled)}
    judged = [
        _rule("readable", (*empty, *unread(tree)), packed(tree), {"files": len(tree.seen)}),
        _rule("format", pickles_only(tree, pickled), measured=counts),
        _rule("pickle", imports(tree), unknown_imports(tree), {"pickles": len(_pickles(tree))}),
        _rule("index", *indexes(tree), {"indexes": _count_indexes(tree)}),
        _proof(tree, pickled, console),
        *([_recipe(held)] if held else []),
    ]
    checks = tuple(check for check, _ in judged)
    return Report(
        status="failed" if any(one.status == "fail" for one in checks) else "verified",
        plan=None,
        output=None,
        digest=None,
        source=_document(tree, what),
        checks=checks,
        findings=tuple(finding for _, found in judged for finding in found),
        pickles=_pickles(tree),
        versions=versions(),
        seconds=time.perf_counter() - started,
        peak_memory_bytes=peak_memory_bytes(),
    )


def _rule(
    name: str,
    problems: Iterable[Problem],
    said: Iterable[Finding] = (),
    measured: Mapping[str, Any] | None = None,
) -> _Judged:
    """The outcome of a rule: it passes where nothing breaks it."""
    broken = tuple(problems)
    detail = "; ".join(_line(one) for one in broken[:3])
    outcome = Check(name, "fail" if broken else "pass", measured or {}, {}, detail)
    return outcome, (*(one.finding() for one in broken), *said)


def _proof(tree: Tree, pickled: tuple[WeightSet, ...], console: Console) -> _Judged:
    compared, recorded = prove(tree, pairs(tree, pickled), console), records(tree)
    measured = {**compared.measured, **recorded.measured}
    if not measured:
        nothing = "no pickles lie beside safetensors, and no record of a conversion"
        return Check("proof", "skipped", detail=nothing), ()
    problems = (*compared.problems, *recorded.problems)
    return _rule("proof", problems, (*compared.findings, *recorded.findings), measured)


def _recipe(held: Held) -> _Judged:
    """That of a recipe; where its result is judged by the other rules, that is said."""
    if held.elsewhere:
        told = f"{held.elsewhere}, where the other rules judge it"
        return Check("recipe", "skipped", detail=told), (info("recipe", "", told),)
    return _rule("recipe", held.problems, held.findings)


def _count_indexes(tree: Tree) -> int:
    return sum(one.layout.index is not None for one in tree.safetensors)


def _line(problem: Problem) -> str:
    return f"{problem.subject}: {problem.what}" if problem.subject else problem.what


def _pickles(tree: Tree) -> list[dict[str, Any]]:
    found = [(printable(one.file.name), one.pickle) for one in tree.seen.values() if one.pickle]
    return pickle_documents(found)


def _document(tree: Tree, what: str) -> dict[str, Any]:
    """What was judged, as reports name a source: its files of weights, of every set."""
    files = {one.file.name: one for found in tree.sets for one in found.files}
    formats = {one.contents.format for one in files.values() if one.contents}
    at = tree.snapshot
    return {
        "repo": at.repo if at else None,
        "commit": at.commit if at else None,
        "path": None if at else printable(what),
        "format": " and ".join(sorted(formats)) or "unknown",
        "files": [
            {"file": printable(name), "size": one.file.size} for name, one in sorted(files.items())
        ],
    }
