"""From a plan to a proven folder: make, check, hand over. Nothing half-made is left under a final name."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from hfconvert.checks.result import Check
from hfconvert.console import Console
from hfconvert.errors import (
    Problem,
    UserError,
    exhausted_problem,
    raise_any,
    recipe_problem,
    resource_problem,
    values_problem,
)
from hfconvert.findings import Finding
from hfconvert.making.make import Result, make
from hfconvert.making.results import (
    QUICK_HASH_BYTES,
    known_files,
    make_report,
    recorded_outputs,
    up_to_date,
    write_record,
)
from hfconvert.making.work import Journal, check_free, hand_over, read_record, work_folder
from hfconvert.planning.digest import Identity, Remembered, identifying, unknown_bytes
from hfconvert.planning.plan import Plan
from hfconvert.proving.conversion import conversion_of
from hfconvert.proving.logits import prove_logits
from hfconvert.proving.models import Allowed, prove_architecture, unproved_ties
from hfconvert.readers.torch_checksums import Passing, looking_for_flips
from hfconvert.readers.torch_found import Checksum
from hfconvert.recipe import Recipe
from hfconvert.report.model import Report, Status
from hfconvert.tensors.source import SourceFile

Maker = Callable[[Plan, Path, Journal, Recipe, Console], Result]


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
class Asked:
    """What is to be converted: a recipe with its plan, where the result goes, and when the run began."""

    recipe: Recipe
    plan: Plan
    output: Path
    allowed: Allowed
    started: float
    known: Remembered = field(
        default_factory=dict
    )  # the content of local files that were hashed already

    def report(self, status: Status, planned: Plan, made: Result | None = None) -> Report:
        """The report of the run at this moment."""
        return make_report(status, planned, self.output, self.started, made)


@dataclass(frozen=True, slots=True)
class Converted:
    """Every file made and proved, in the work folder; its report, and what identifies the source."""

    folder: Path
    report: Report
    identities: tuple[Identity, ...]


def convert(asked: Asked, console: Console) -> Report:
    """Make the output folder, or say that it is up to date.

    UserError where it cannot be done; ChecksFailedError, with the report, where the result is not right.
    """
    earlier = up_to_date(asked.plan, asked.output)
    if earlier is not None:
        made = Result(recorded_outputs(read_record(asked.output)), ())
        return asked.report("up-to-date", earlier, made)
    check_free(asked.output, asked.recipe.position("output", "path"))
    with converting(asked, console, make) as done:
        write_record(done.folder, done.report, done.identities)
        hand_over(done.folder, asked.output)
    return done.report


@contextmanager
def converting(asked: Asked, console: Console, maker: Maker) -> Iterator[Converted]:
    """Make and prove everything in a work folder, which is the caller's within the block.

    The folder is removed where anything fails within. Errors as for `convert`.
    """
    recipe, planned = asked.recipe, asked.plan
    where = recipe.position("output", "path")
    conversion = conversion_of(planned)
    loadable = prove_architecture(conversion, recipe, asked.allowed)
    said = (*loadable.findings, *unproved_ties(planned.ties, conversion.config, loadable))
    fits = _and(Result((), ()), (loadable.check,), said, loadable.versions)
    if fits.failed:
        raise ChecksFailedError(asked.report("failed", planned, fits))
    passing = Passing(_checksums(planned, recipe))
    with (
        _disk_errors(asked.output, where),
        work_folder(asked.output, planned.key, where) as (folder, journal),
        identifying(
            _hashed(planned, recipe), {**known_files(planned), **asked.known}, passing.see
        ) as identities,
        looking_for_flips(passing, identities) as flips,
    ):
        made = maker(planned, folder, journal, recipe, console)
        made = _and(made, (loadable.check,), said, loadable.versions)
        if not made.failed and all(check.name != "logits" for check in made.checks):
            outcomes = prove_logits(conversion, recipe, folder, asked.allowed, made.checks)
            made = _and(made, outcomes.checks, outcomes.findings, outcomes.versions)
        raise_any(flips.result())
        finished = planned.identified(identities.result())
        for file in planned.files:
            file.check_unchanged()
        report = asked.report("converted", finished, made)
        if made.failed:
            raise ChecksFailedError(report)
        yield Converted(folder, report, identities.result())


def _hashed(planned: Plan, recipe: Recipe) -> tuple[SourceFile, ...]:
    """The files to hash for the digest: none where that would cost more than the recipe asks for."""
    unknown = unknown_bytes(planned.files, known_files(planned))
    return (
        () if recipe.validation.tensors == "off" and unknown > QUICK_HASH_BYTES else planned.files
    )


def _checksums(planned: Plan, recipe: Recipe) -> tuple[Checksum, ...]:
    """Those that the source records of itself, where the recipe asks for every value.

    Of files that are read by ranges, they are looked at while the ranges lie on this disk.
    """
    whole = recipe.validation.tensors == "full" and not is_remote(planned)
    return planned.checksums if whole else ()


def is_remote(planned: Plan) -> bool:
    """Whether weights are read from the Hub by ranges."""
    return planned.origin is not None and bool(planned.origin.remote)


def _and(
    made: Result,
    checks: tuple[Check, ...],
    findings: tuple[Finding, ...],
    used: Mapping[str, str],
) -> Result:
    return replace(
        made,
        checks=(*made.checks, *checks),
        findings=(*made.findings, *findings),
        versions={**made.versions, **used},
    )


def _failed(check: Check) -> Problem:
    what = f"the check `{check.name}` failed: {check.detail}"
    why = "what was written differs from what was planned or read"
    do = "keep the source; report this with the log, or look at the disk"
    if check.name == "architecture":
        why = "names or shapes are not those of validate.reference, or of the class in config.json"
        do = "mend the names with key_map, or config.json; validate.architecture: off converts all the same"
    elif check.name == "dtypes" and check.measured.get("overflow"):
        why = "the dtype cannot hold numbers that large; they would become infinite"
        do = "cast to bfloat16, or keep these wider: dtype: {default: ..., rules: {NAME: float32}}"
    elif check.name == "logits":
        why = "a step rearranges values in another way than the model has them, or a dtype holds too little"
        do = (
            "mend key_map or dtype; where it is the source that computes wrongly, validate.reference names a "
            "model that is right"
        )
    return values_problem(what, why=why, do=do, check=check.name)


@contextmanager
def _disk_errors(output: Path, where: str) -> Iterator[None]:
    """Errors of writing, as problems: what is full or too large is exit 5, all else exit 2."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise UserError(_full(output, error)) from error
        lacking = exhausted_problem(error)
        if lacking is not None:
            raise UserError(lacking) from error
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
