"""Before a run that publishes: what recipe, disk and memory do not allow, beside what the Hub does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hfconvert.errors import Problem, raise_any, recipe_problem, resource_problem
from hfconvert.findings import Finding, warning
from hfconvert.hub.earlier import put_there
from hfconvert.hub.story import changes_values
from hfconvert.hub.target import Target, stem_of, superseded
from hfconvert.making.bounded import bounded_bytes
from hfconvert.making.room import free_bytes, too_little_memory
from hfconvert.planning.plan import Plan
from hfconvert.recipe import Recipe
from hfconvert.report.sizes import human


def check_replaced(recipe: Recipe, planned: Plan, target: Target) -> None:
    """UserError (exit 2) where other values would stand over a repository's own weights, unasked.

    What hfconvert put there itself may be replaced.
    """
    if target.origin is not None and planned.merges.adapters:
        raise_any([_merge_over_its_base(recipe, target)])
    if recipe.publish is None or recipe.publish.replace_weights or target.head is None:
        return
    files = [target.place(shard.file) for shard in planned.shards]
    if target.origin is not None:
        if changes_values(planned):
            raise_any([_over_its_own(recipe, target)])
        return
    present = target.head.files
    taken = [*(file for file in files if file in present), *superseded(present, files)]
    if taken and not put_there(target, stem_of(files)):
        raise_any([_over_others(recipe, target, taken)])


def choose_disk(recipe: Recipe, planned: Plan, place: Path) -> tuple[bool, tuple[Finding, ...]]:
    """Whether the run has to be bounded, and what is to be said of that.

    UserError: exit 2 where the recipe wants both a bounded disk and an output folder, 5 where neither disk
    nor memory is large enough.
    """
    asked = recipe.output.disk == "bounded"
    keeps = recipe.output.path is not None
    if asked and keeps:
        raise_any([_contradiction(recipe)])
    place.parent.mkdir(parents=True, exist_ok=True)
    free = free_bytes(place.parent)
    download = planned.origin.download_bytes if planned.origin else 0
    whole, bounded = planned.output_bytes + download, bounded_bytes(planned)
    fits = whole <= free
    raise_any(_too_little(planned, free, whole if keeps else min(whole, bounded), place))
    if asked or fits:
        return asked, ()
    message = (
        f"the result needs {human(whole)} of disk and {human(free)} are free: the run is bounded, "
        f"it takes {human(bounded)}"
    )
    hint = "output.disk: bounded says so in the recipe; HF_HOME chooses another disk"
    return True, (warning("publish", str(place.parent), message, hint),)


def _too_little(planned: Plan, free: int, needed: int, place: Path) -> Iterator[Problem]:
    if needed > free:
        yield resource_problem(
            f"the run needs {human(needed)} of disk, and {human(free)} are free",
            why="even with two shards at a time the disk is too small"
            if needed < planned.output_bytes
            else "the disk is too small for the result",
            do="free some space, set HF_HOME to a larger disk, or lower output.max_shard_size",
            subject=str(place.parent),
        )
    yield from too_little_memory(planned)


def _over_its_own(recipe: Recipe, target: Target) -> Problem:
    return recipe_problem(
        f"the result has other values than the weights of {target.repo}, and loaders would read it",
        why="the recipe casts or computes, and its target is the source itself",
        do="write replace_weights: true under publish, or name another repository under publish.repo",
        subject=recipe.position("publish"),
    )


def _merge_over_its_base(recipe: Recipe, target: Target) -> Problem:
    return recipe_problem(
        f"a merge is not published to its source, and the local files are those of {target.repo}",
        why="a merged model is another model than its source",
        do="name another repository under publish.repo",
        subject=recipe.position("publish", "repo"),
    )


def _over_others(recipe: Recipe, target: Target, taken: list[str]) -> Problem:
    return recipe_problem(
        f"{target.repo} has weights of its own: {', '.join(taken[:3])}",
        why="hfconvert did not put them there, and the result would take their place",
        do="write replace_weights: true under publish, or name another repository",
        subject=recipe.position("publish", "repo"),
    )


def _contradiction(recipe: Recipe) -> Problem:
    return recipe_problem(
        "a bounded disk and an output folder cannot both be had",
        why="with output.disk: bounded each shard is dropped once it is uploaded",
        do="leave output.path (or --output) out, or write disk: normal",
        subject=recipe.position("output", "disk"),
    )
