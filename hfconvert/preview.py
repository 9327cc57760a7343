"""From a recipe to its plan, as `hfconvert plan` shows it and `run --dry-run` reports it. Makes nothing."""

from __future__ import annotations

import time

from hfconvert.making.results import QUICK_HASH_BYTES, known_files, make_report, output_path
from hfconvert.making.work import read_record
from hfconvert.planning.digest import identify, unknown_bytes
from hfconvert.planning.plan import Plan, make_plan
from hfconvert.recipe import Recipe
from hfconvert.report.model import Report
from hfconvert.sourcing import look_at_source


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
