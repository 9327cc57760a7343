"""A run, from recipe to result: load, plan, execute, check, hand over."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hfconvert.checks.architecture.check import Outcome
from hfconvert.checks.merge import Held, hold_file
from hfconvert.checks.result import Check
from hfconvert.checks.sample import every_block, sampled_blocks
from hfconvert.checks.tensors import NOTHING, Blocks, compare_file
from hfconvert.console import Console
from hfconvert.digest import Identity, Remembered, identify, identifying, remembered, unknown_bytes
from hfconvert.errors import (
    Problem,
    UserError,
    raise_any,
    recipe_problem,
    resource_problem,
    values_problem,
)
from hfconvert.execute import copy_files, execute
from hfconvert.findings import Finding, warning
from hfconvert.hashing import hash_bytes
from hfconvert.logits import prove_logits
from hfconvert.machine import peak_memory_bytes, versions
from hfconvert.models import Allowed, prove_architecture
from hfconvert.opening import measure_opening
from hfconvert.plan import Plan, make_plan
from hfconvert.prove import prove
from hfconvert.readers.torch_checksums import looking_for_flips
from hfconvert.readers.torch_found import Checksum
from hfconvert.recipe import Recipe
from hfconvert.report.documents import report_document
from hfconvert.report.model import Opening, Output, Report, Status
from hfconvert.sourcing import fetch_source, look_at_source
from hfconvert.tensors.source import SourceFile
from hfconvert.tensors.tally import Loss
from hfconvert.work import (
    RECORD,
    Journal,
    check_free,
    check_space,
    hand_over,
    read_record,
    work_folder,
    write_file,
)

# Local sources above this size are hashed only where their values are read twice anyway: hashing costs as
# much time as copying.
QUICK_HASH_BYTES = 64 << 20

_BLOCKS: Mapping[str, Blocks | None] = {"full": every_block, "sample": sampled_blocks, "off": None}
_NOTHING_ALLOWED = Allowed()


class ChecksFailedError(Exception):
    """A check failed: the work folder goes, nothing is handed over. Carries the report that says so."""

    def __init__(self, report: Report) -> None:
        super().__init__("a check failed")
        failed = tuple(
            _failed(check).finding() for check in report.checks if check.status == "fail"
        )
        self.report = replace(
            report, status="failed", output=None, findings=report.findings + failed
        )


@dataclass(frozen=True, slots=True)
class Made:
    """What a run wrote and proved, before it is handed over."""

    outputs: tuple[Output, ...]
    checks: tuple[Check, ...]
    findings: tuple[Finding, ...] = ()
    opening: Opening | None = None
    versions: Mapping[str, str] = field(default_factory=dict)  # of libraries in other processes


def plan(recipe: Recipe) -> Plan:
    """The plan of a recipe, with its digest where every file is known or small enough to be hashed."""
    source = look_at_source(recipe)
    planned = make_plan(source.recipe, source.origin)
    known = _known(planned, read_record(output_path(recipe, planned)))
    if unknown_bytes(planned.files, known) > QUICK_HASH_BYTES:
        return planned
    return planned.identified(identify(planned.files, known))


def dry_run(recipe: Recipe) -> Report:
    """The report of a run that stops after the plan."""
    started = time.perf_counter()
    planned = plan(recipe)
    return _report("planned", planned, output_path(recipe, planned), started)


def run(recipe: Recipe, console: Console, allowed: Allowed = _NOTHING_ALLOWED) -> Report:
    """Do the whole job. Nothing half-made is left under a final name.

    UserError where it cannot be done; ChecksFailedError, with the report, where the result is not right.
    """
    started = time.perf_counter()
    source = fetch_source(recipe)
    recipe, planned = source.recipe, make_plan(source.recipe, source.origin)
    output = output_path(recipe, planned)
    earlier = _up_to_date(planned, output)
    if earlier is not None:
        made = Made(recorded_outputs(read_record(output)), ())
        return _report("up-to-date", earlier, output, started, made)
    where = recipe.position("output", "path")
    check_free(output, where)
    loadable = prove_architecture(planned, recipe, allowed)
    if loadable.check.status == "fail":
        raise ChecksFailedError(_report("failed", planned, output, started, _with(None, loadable)))
    with (
        _disk_errors(output, where),
        work_folder(output, planned.key, where) as (folder, journal),
        identifying(_hashed(planned, recipe), _known(planned)) as identities,
        looking_for_flips(_checksums(planned, recipe)) as flips,
    ):
        made = _with(_make(planned, folder, journal, recipe, console), loadable)
        if not _failed_checks(made):
            outcomes = prove_logits(planned, recipe, folder, allowed, made.checks)
            made = _and(made, outcomes.checks, outcomes.findings, outcomes.versions)
        raise_any(flips.result())
        finished = planned.identified(identities.result())
        for file in planned.files:
            file.check_unchanged()
        report = _report("converted", finished, output, started, made)
        if _failed_checks(made):
            raise ChecksFailedError(report)
        write_file(folder / RECORD, _record(report, identities.result()))
        hand_over(folder, output)
    return report


def _with(made: Made | None, outcome: Outcome) -> Made:
    """What was made, with the outcome of one more check."""
    made = made or Made((), ())
    return _and(made, (outcome.check,), outcome.findings, outcome.versions)


def _and(
    made: Made,
    checks: tuple[Check, ...],
    findings: tuple[Finding, ...],
    used: Mapping[str, str],
) -> Made:
    return replace(
        made,
        checks=(*made.checks, *checks),
        findings=(*made.findings, *findings),
        versions={**made.versions, **used},
    )


def _failed_checks(made: Made) -> bool:
    return any(check.status == "fail" for check in made.checks)


def _hashed(planned: Plan, recipe: Recipe) -> tuple[SourceFile, ...]:
    """The files to hash for the digest: none where that would cost more than the recipe asks for."""
    unknown = unknown_bytes(planned.files, _known(planned))
    return (
        () if recipe.validation.tensors == "off" and unknown > QUICK_HASH_BYTES else planned.files
    )


def _known(planned: Plan, record: Mapping[str, Any] | None = None) -> Remembered:
    """The content of files as the Hub or an earlier run recorded it."""
    return {**remembered(record), **(planned.origin.known if planned.origin else {})}


def _checksums(planned: Plan, recipe: Recipe) -> tuple[Checksum, ...]:
    """Those that the source records of itself, where the recipe asks for every value."""
    return planned.checksums if recipe.validation.tensors == "full" else ()


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


def _make(planned: Plan, folder: Path, journal: Journal, recipe: Recipe, console: Console) -> Made:
    """Make, hash and check every file in the work folder."""
    check_space(folder, planned.output_bytes - journal.nbytes)
    blocks = _BLOCKS[recipe.validation.tensors]
    compared, held, outputs = NOTHING, Held(), []
    losses: dict[str, Loss] = {}
    with (
        console.progress("convert", planned.output_bytes) as advance,
        closing(execute(planned.shards, folder, journal, planned.tally, advance)) as shards,
    ):
        for made in shards:
            shard = made.shard
            if blocks:
                tensors = {placed.name: placed.entry.tensor for placed in shard.tensors}
                merges = planned.merges
                compared += compare_file(made.path, shard.file, tensors, blocks, merges.sums)
                some = None if blocks is every_block else blocks
                held += hold_file(made.path, shard.file, merges, some)
            losses.update(made.losses)
            outputs.append(Output(shard.file, shard.size, made.sha256))
            console.done(f"{shard.file}  {shard.size} bytes  sha256 {made.sha256}")
        outputs += [Output(*copied) for copied in copy_files(planned.copies, folder)]
    for file, content in _texts(planned):
        write_file(folder / file, content)
        outputs.append(Output(file, len(content), hash_bytes(content)))
    sampled = blocks is sampled_blocks
    checks = prove(
        planned,
        folder,
        compared if blocks else None,
        losses,
        sampled=sampled,
        held=held if blocks else None,
    )
    opening = measure_opening(planned, folder)
    return Made(tuple(outputs), checks, tuple(_underflows(losses)), opening)


def _texts(planned: Plan) -> Iterator[tuple[str, bytes]]:
    """Small files that are written as a whole: the index, the configuration where it changes."""
    yield from ((text.file, text.content) for text in planned.texts)
    yield from ((one.source.name, one.content) for one in planned.rewritten)


def _up_to_date(planned: Plan, output: Path) -> Plan | None:
    """The plan with its digest where the output folder is the result of the very same plan."""
    record = read_record(output)
    outputs = recorded_outputs(record)
    if record is None or any(_size(output / one.file) != one.size for one in outputs):
        return None
    if record.get("plan") == planned.key:
        return replace(planned, digest=record.get("digest"))
    identified = planned.identified(identify(planned.files, _known(planned, record)))
    return identified if identified.digest == record.get("digest") else None


def recorded_outputs(record: Mapping[str, Any] | None) -> tuple[Output, ...]:
    """The files that an earlier run recorded; none where the record is of another form."""
    try:
        items = record["report"]["outputs"] if record else ()
        return tuple(Output(item["file"], item["size"], item["sha256"]) for item in items)
    except (KeyError, TypeError):
        return ()


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def _record(report: Report, identities: tuple[Identity, ...]) -> bytes:
    """`hfconvert.json`: the digest, the report, and the hashes of local files to know them again."""
    document = {
        "digest": report.digest,
        "plan": report.plan.key if report.plan else None,
        "report": report_document(report),
        "files": [identity.as_json() for identity in identities],
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def _report(
    status: Status, planned: Plan, output: Path, started: float, made: Made | None = None
) -> Report:
    return Report(
        status=status,
        plan=planned,
        output=str(output),
        digest=planned.digest,
        outputs=made.outputs if made else (),
        checks=made.checks if made else (),
        findings=planned.findings + (made.findings if made else ()),
        opening=made.opening if made else None,
        versions={**versions(), **(made.versions if made else {})},
        seconds=time.perf_counter() - started,
        peak_memory_bytes=peak_memory_bytes(),
    )


def _underflows(losses: Mapping[str, Loss]) -> Iterator[Finding]:
    for name, loss in losses.items():
        if loss.underflow:
            share = f"{loss.underflow} of {loss.values} values ({loss.underflow / loss.values:.2%})"
            message = f"{share} are too small for the new dtype and become zero"
            yield warning("dtypes", name, message, "keep a wider dtype for it by a rule")


def _failed(check: Check) -> Problem:
    what = f"the check `{check.name}` failed: {check.detail}"
    why = "what was written differs from what was planned or read"
    do = "keep the source; report this with the log, or look at the disk"
    if check.name == "architecture":
        why = "names or shapes are not those of the class that config.json names"
        do = "mend the names with key_map, or config.json; validate.architecture: off converts all the same"
    elif check.name == "dtypes" and check.measured.get("overflow"):
        why = "the dtype cannot hold numbers that large; they would become infinite"
        do = "cast to bfloat16, or keep these wider: dtype: {default: ..., rules: {NAME: float32}}"
    return values_problem(what, why=why, do=do, check=check.name)


@contextmanager
def _disk_errors(output: Path, where: str) -> Iterator[None]:
    """Errors of writing, as problems: what is full or too large is exit 5, all else exit 2."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise UserError(_full(output, error)) from error
        raise UserError(_unwritable(output, error, where)) from error


def _full(output: Path, error: OSError) -> Problem:
    return resource_problem(
        f"the disk takes no more: {error.strerror}; what was written of the output has been removed",
        why="something else filled the disk, or a quota or limit is smaller than the disk",
        do="free some space, or choose an output on another disk",
        subject=str(output),
    )


def _unwritable(output: Path, error: OSError, where: str) -> Problem:
    return recipe_problem(
        f"the output {output} cannot be written: {error.strerror or error}",
        why="the disk or its permissions do not allow it",
        do="choose another output",
        subject=where,
    )
