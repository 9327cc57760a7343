"""Where a run publishes to: the repositories of its result and of its adapters, before it begins."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from hfconvert.hub.about import Act
from hfconvert.hub.checkout import content_of
from hfconvert.hub.client import connect_to_publish
from hfconvert.hub.clone import is_clone
from hfconvert.hub.preflight import Wanted, prepare
from hfconvert.hub.target import Target
from hfconvert.making.results import known_files, make_report
from hfconvert.planning.digest import Remembered, file_key
from hfconvert.planning.plan import Plan, make_plan
from hfconvert.publishing.permitted import check_replaced, choose_disk
from hfconvert.recipe import Recipe
from hfconvert.recipe.publish import Publish
from hfconvert.report.model import Report
from hfconvert.sourcing import Sourced, look_at_source
from hfconvert.workplace import place_for


@dataclass(frozen=True, slots=True)
class Aim:
    """A source with its plan, and where the result may go. `known` is what the Hub records of local files."""

    source: Sourced
    planned: Plan
    target: Target
    adapters: Target | None
    known: Remembered


def take_aim(recipe: Recipe, wish: Publish, *, force: bool) -> Aim:
    """Look at source and targets; nothing is changed. UserError where the result may not go there."""
    source = look_at_source(recipe)
    planned = make_plan(source.recipe, source.origin)
    target = _prepared(_wanted(recipe, wish, source, planned, force=force))
    source, target, known = _recognised(source, target, planned)
    return Aim(source, planned, target, _adapter_target(wish, planned, force=force), known)


def rehearse(recipe: Recipe, wish: Publish) -> Report:
    """The report of a run that stops after the plan, and after all that is asked before publishing."""
    started = time.perf_counter()
    aim = take_aim(recipe, wish, force=False)
    check_replaced(recipe, aim.planned, aim.target)
    place = recipe.output.path or place_for(aim.target.repo, aim.planned.key)
    _, findings = choose_disk(recipe, aim.planned, place)
    report = make_report("planned", aim.planned, recipe.output.path, started)
    return replace(report, findings=(*report.findings, *findings))


def _prepared(wanted: Wanted) -> Target:
    act: Act = "propose" if wanted.how == "pull_request" else "write"
    return prepare(connect_to_publish(wanted.repo, act), wanted)


def _wanted(
    recipe: Recipe, wish: Publish, source: Sourced, planned: Plan, *, force: bool
) -> Wanted:
    return Wanted(
        repo=wish.repo or recipe.source.repo or "",
        how=wish.how,
        private=wish.private,
        nbytes=planned.output_bytes,
        origin=source.snapshot,
        folder=recipe.source.subfolder or "",
        force=force,
    )


def _recognised(
    source: Sourced, target: Target, planned: Plan
) -> tuple[Sourced, Target, Remembered]:
    """Local files that are, one and all, those of the target: then it is the source that is published to,
    and its files have the content that the Hub records."""
    head, known = target.head, known_files(planned)
    files = [*planned.sources, *planned.copies, *(one.source for one in planned.rewritten)]
    if source.snapshot is not None or head is None or not is_clone(files, head):
        return source, target, known
    recorded = {file_key(file): content_of(head.file(file.name)) for file in files}
    known = {**known, **recorded}
    return replace(source, snapshot=head), replace(target, origin=head), known


def _adapter_target(wish: Publish, planned: Plan, *, force: bool) -> Target | None:
    """The repository that the adapters go to, where that is one of their own."""
    if wish.adapter in ("none", "beside"):
        return None
    files = (file for adapter in planned.merges.adapters for file in adapter.files)
    nbytes = sum(file.size for file in files)
    wanted = Wanted(repo=wish.adapter, how=wish.how, private=wish.private, nbytes=nbytes)
    return _prepared(replace(wanted, force=force))
