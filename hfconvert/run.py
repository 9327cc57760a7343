"""A run, from recipe to result: load, plan, execute, check, hand over or publish."""

from __future__ import annotations

import time

from hfconvert.console import Console
from hfconvert.making.converting import Asked, ChecksFailedError, convert
from hfconvert.making.results import output_path
from hfconvert.making.room import check_room
from hfconvert.planning.plan import make_plan
from hfconvert.proving.models import Allowed
from hfconvert.recipe import Recipe
from hfconvert.report.model import Report
from hfconvert.sourcing import fetch_source, look_at_source

__all__ = ["ChecksFailedError", "run"]

_NOTHING_ALLOWED = Allowed()


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
        from hfconvert.publishing.publish import run_and_publish  # noqa: PLC0415 - huggingface_hub

        return run_and_publish(recipe, recipe.publish, console, allowed, force=force)
    started = time.perf_counter()
    source = fetch_source(_with_room(recipe))
    planned = make_plan(source.recipe, source.origin)
    output = output_path(source.recipe, planned)
    check_room(planned, output)
    return convert(Asked(source.recipe, planned, output, allowed, started), console)


def _with_room(recipe: Recipe) -> Recipe:
    """The recipe, its repository at the commit that was looked at: there is room for it. UserError."""
    if recipe.source.repo is None:
        return recipe
    source = look_at_source(recipe)
    planned = make_plan(source.recipe, source.origin)
    check_room(planned, output_path(source.recipe, planned))
    return source.pinned(recipe)
