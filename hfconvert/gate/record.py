"""Records of conversions in the tree: what `hfconvert.json` says was made is what lies beside it."""

from __future__ import annotations

from pathlib import PurePosixPath

from hfconvert.errors import Problem, source_problem
from hfconvert.findings import Finding, info
from hfconvert.gate.proof import Proved
from hfconvert.gate.tree import Tree
from hfconvert.hashing import hash_file
from hfconvert.inspect.listing import printable
from hfconvert.keymap.fold import listed
from hfconvert.making.results import recorded_outputs
from hfconvert.making.work import RECORD, read_record
from hfconvert.readers.index import SUFFIX
from hfconvert.report.model import Output

MOST = 64 << 20  # bytes of a record; that of the largest models is far smaller


def records(tree: Tree) -> Proved:
    """Hold every record against the files that it speaks of.

    Weights and indexes have to be those that were proved. Other files are people's to change afterwards,
    and that is said.
    """
    problems: list[Problem] = []
    findings: list[Finding] = []
    places = [name for name in tree.listing.names if name.rpartition("/")[2] == RECORD]
    for place in places:
        outputs, failed = _recorded(tree, place)
        folder = PurePosixPath(place).parent
        changed = [one for one in outputs if not _holds(tree, folder / one.file, one)]
        weights = [one.file for one in changed if _is_weights(one.file)]
        others = [one.file for one in changed if not _is_weights(one.file)]
        if not outputs:
            problems.append(_unreadable(place))
        if failed or weights:
            problems.append(_broken(place, failed, weights))
        if others:
            told = f"changed or removed after the conversion: {listed(map(printable, others))}"
            findings.append(info("proof", printable(place), told))
    return Proved(tuple(problems), tuple(findings), {"records": len(places)} if places else {})


def _recorded(tree: Tree, place: str) -> tuple[tuple[Output, ...], bool]:
    """What was made, by the record; and whether it tells of a check that failed."""
    small = tree.seen[place].file.size <= MOST
    record = (read_record((tree.root / place).parent) if small else None) or {}
    report = record.get("report")
    checks = report.get("checks") if isinstance(report, dict) else None
    failed = any(
        isinstance(check, dict) and check.get("status") == "fail"
        for check in (checks if isinstance(checks, list) else ())
    )
    return recorded_outputs(record), failed


def _holds(tree: Tree, place: PurePosixPath, made: Output) -> bool:
    """Whether the file is there with the recorded content; in a repository by the Hub's record."""
    path = tree.root / place
    if tree.snapshot is None:
        return (
            path.is_file() and path.stat().st_size == made.size and hash_file(path) == made.sha256
        )
    file = tree.snapshot.files.get(str(place))
    if file is None or file.size != made.size:
        return False
    if file.identity.startswith("sha256:"):
        return file.identity == f"sha256:{made.sha256}"
    return path.is_file() and hash_file(path) == made.sha256


def _is_weights(file: str) -> bool:
    return file.endswith((".safetensors", SUFFIX))


def _broken(place: str, failed: bool, weights: list[str]) -> Problem:
    changed = f"other files than it says: {listed(map(printable, weights))}"
    return source_problem(
        "a check failed when this was made" if failed else changed,
        why="weights were changed after the conversion, or the record is of another one",
        do="convert again with `hfconvert run`, and publish the whole output folder",
        subject=printable(place),
        check="proof",
    )


def _unreadable(place: str) -> Problem:
    return source_problem(
        "this record of a conversion tells of no file",
        why="it is damaged, or was not written by hfconvert",
        do="remove it, or convert again with `hfconvert run`",
        subject=printable(place),
        check="proof",
    )
