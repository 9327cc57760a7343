"""A run, from recipe to result: load, plan, execute, check, hand over or publish."""

from __future__ import annotations

import time

from hfconvert.console import Console
from hfconvert.converting import (
    QUICK_HASH_BYTES,
    Asked,
    ChecksFailedError,
    convert,
    known_files,
    make_report,
    output_path,
    recorded_outputs,
)
from hfconvert.digest import identify, unknown_bytes
from hfconvert.models import Allowed
from hfconvert.plan import Plan, make_plan
from hfconvert.recipe import Recipe
from hfconvert.report.model import Report
from hfconvert.sourcing import fetch_source, look_at_source
from hfconvert.work import read_record

__all__ = ["ChecksFailedError", "dry_run", "output_path", "plan", "recorded_outputs", "run"]

_NOTHING_ALLOWED = Allowed()


def plan(recipe: Recipe) -> Plan:
    """The plan of a recipe, with its digest where every file is known or small enough to be hashed."""
    source = look_at_source(recipe)
    planned = make_plan(source.recipe, source.origin)
    known = known_files(planned, read_record(output_path(recipe, planned)))
    if unknown_bytes(planned.files, known) > QUICK_HASH_BYTES:
        return planned
    return planned.identified(identify(planned.files, known))


def dry_run(recipe: Recipe) -> Report:
    """The report of a run that stops after the plan."""
    started = time.perf_counter()
    planned = plan(recipe)
    kept = recipe.publish is None or recipe.output.path is not None
    output = output_path(recipe, planned) if kept else None
    return make_report("planned", planned, output, started)


def run(
    recipe: Recipe,
    console: Console,
    allowed: Allowed = _NOTHING_ALLOWED,
    *,
    force: bool = False,
) -> Report:
    """Do the whole job. Nothing half-made is left under a final name, nothing is published twice.

    With `force`, what was merged or what its owner closed is proposed again. UserError where it cannot be
    done; ChecksFailedError, with the report, where the result is not right.
    """
    if recipe.publish is not None:
        from hfconvert.publishing import run_and_publish  # noqa: PLC0415 - huggingface_hub

        return run_and_publish(recipe, recipe.publish, console, allowed, force=force)
    started = time.perf_counter()
    source = fetch_source(recipe)
    planned = make_plan(source.recipe, source.origin)
    output = output_path(source.recipe, planned)
    return convert(Asked(source.recipe, planned, output, allowed, started), console)
