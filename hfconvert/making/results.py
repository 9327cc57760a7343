"""What a run's result is: where it lies, its report, and what `hfconvert.json` records of it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hfconvert.checks.result import Check
from hfconvert.machine import peak_memory_bytes, versions
from hfconvert.making.work import RECORD, read_record, write_file
from hfconvert.planning.digest import Identity, Remembered, identify, remembered
from hfconvert.planning.plan import Plan
from hfconvert.recipe import Recipe
from hfconvert.report.documents import report_document
from hfconvert.report.model import Output, Report, Status

if TYPE_CHECKING:
    from hfconvert.making.make import Result

# Local sources above this size are hashed only where their values are read twice anyway: hashing costs as
# much time as copying.
QUICK_HASH_BYTES = 64 << 20


def output_path(recipe: Recipe, planned: Plan) -> Path:
    """The output folder: the recipe's, else `./<source name>-<dtype>`, with `-merged` after a merge."""
    if recipe.output.path is not None:
        return recipe.output.path
    source = Path(planned.path).resolve()
    name = source.name if source.is_dir() else source.stem
    if planned.origin is not None:
        name = planned.origin.repo.rpartition("/")[2]
    merged = "-merged" if planned.merges.adapters else ""
    return Path(f"{name}-{planned.main_dtype}{merged}")


def make_report(
    status: Status, planned: Plan, output: Path | None, started: float, made: Result | None = None
) -> Report:
    """The report of a run at this moment."""
    return Report(
        status=status,
        plan=planned,
        output=None if output is None else str(output),
        digest=planned.digest,
        outputs=made.outputs if made else (),
        checks=made.checks if made else (),
        findings=planned.findings + (made.findings if made else ()),
        opening=made.opening if made else None,
        versions={**versions(), **(made.versions if made else {})},
        seconds=time.perf_counter() - started,
        peak_memory_bytes=peak_memory_bytes(),
    )


def known_files(planned: Plan, record: Mapping[str, Any] | None = None) -> Remembered:
    """The content of files as the Hub or an earlier run recorded it."""
    return {**remembered(record), **(planned.origin.known if planned.origin else {})}


def up_to_date(planned: Plan, output: Path) -> Plan | None:
    """The plan with its digest where the output folder is the result of the very same plan."""
    record = read_record(output)
    outputs = recorded_outputs(record)
    if record is None or any(_size(output / one.file) != one.size for one in outputs):
        return None
    if record.get("plan") == planned.key:
        return replace(planned, digest=record.get("digest"))
    identified = planned.identified(identify(planned.files, known_files(planned, record)))
    return identified if identified.digest == record.get("digest") else None


def recorded_outputs(record: Mapping[str, Any] | None) -> tuple[Output, ...]:
    """The files that an earlier run recorded; none where the record is of another form."""
    try:
        items = record["report"]["outputs"] if record else ()
        return tuple(map(_output, items))
    except (KeyError, TypeError):
        return ()


def with_recorded_checks(report: Report, output: Path) -> Report:
    """The report of an output folder that is up to date, with the checks that it passed when it was made."""
    if report.status != "up-to-date":
        return report
    record = read_record(output) or {}
    try:
        items = record["report"]["checks"]
        checks = tuple(Check(**item) for item in items)
    except (KeyError, TypeError):
        checks = ()
    return replace(report, checks=checks)


def write_record(folder: Path, report: Report, identities: tuple[Identity, ...]) -> None:
    """Write `hfconvert.json`: the digest, the report, and the hashes of local files to know them again."""
    document = {
        "digest": report.digest,
        "plan": report.plan.key if report.plan else None,
        "report": report_document(report),
        "files": [identity.as_json() for identity in identities],
    }
    write_file(folder / RECORD, (json.dumps(document, indent=2) + "\n").encode())


def write_published(folder: Path, report: Report) -> None:
    """Add to `hfconvert.json` what came of publishing."""
    record = read_record(folder)
    if record is not None:
        document = {**record, "report": {**record["report"], "publish": report.publish}}
        write_file(folder / RECORD, (json.dumps(document, indent=2) + "\n").encode())


def _output(item: Any) -> Output:
    file, size, sha256 = item["file"], item["size"], item["sha256"]
    if not (isinstance(file, str) and isinstance(size, int) and isinstance(sha256, str)):
        raise TypeError
    return Output(file, size, sha256)


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None
