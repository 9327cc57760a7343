"""A run that publishes: whether it may, whether it is done already; then convert, prove, one commit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hfconvert.console import Console
from hfconvert.errors import UserError
from hfconvert.findings import Finding, info
from hfconvert.hub.body import invitation
from hfconvert.hub.create import ensure
from hfconvert.hub.earlier import Judgement, has_marks, look_back
from hfconvert.hub.offer import Fate, Published
from hfconvert.hub.offering import make_offer, mark_of
from hfconvert.hub.publish import finish, publish
from hfconvert.hub.story import Story
from hfconvert.hub.target import Target
from hfconvert.hub.uploads import Proven, Sent, send
from hfconvert.making.bounded import make_bounded
from hfconvert.making.converting import Asked, convert, converting
from hfconvert.making.execute import Made
from hfconvert.making.results import (
    make_report,
    with_recorded_checks,
    write_published,
)
from hfconvert.planning.digest import Remembered, identify, remembered_by
from hfconvert.planning.plan import Plan, make_plan
from hfconvert.proving.models import Allowed
from hfconvert.publishing.adapters import ProvenAdapter, adapter_names, beside, prove_adapters
from hfconvert.publishing.permitted import check_replaced, choose_disk
from hfconvert.publishing.targets import Aim, take_aim
from hfconvert.recipe import Recipe
from hfconvert.recipe.publish import Publish
from hfconvert.report.model import Report, Status
from hfconvert.sourcing import Sourced, fetch_source
from hfconvert.workplace import one_at_a_time, place_for, remove, remove_old

_STATUS: Mapping[Fate, Status] = {"made": "converted", "refused": "skipped"}


@dataclass(frozen=True, slots=True)
class _Job:
    """A recipe that publishes, its source at a commit, where the result goes, and where it is made."""

    recipe: Recipe
    source: Sourced
    target: Target
    adapter_target: Target | None
    place: Path
    scratch: Path
    force: bool


def run_and_publish(
    recipe: Recipe, wish: Publish, console: Console, allowed: Allowed, *, force: bool
) -> Report:
    """Do the whole job. Nothing is published but what passed every check; nothing is published twice.

    With `force`, what was merged or what the owner closed is proposed again. UserError where it cannot be
    done; ChecksFailedError, with the report, where the result is not right.
    """
    started = time.perf_counter()
    remove_old()
    aim = take_aim(recipe, wish, force=force)
    source, target = aim.source, aim.target
    console.detail(f"publish  {target.repo} takes it from this account")
    planned, judged, known = _look_back(aim, force=force)
    if judged.fate != "new":
        report = make_report("up-to-date", planned, None, started)
        story = Story(report=report, target=target, source=source.snapshot)
        return _told(report, finish(target, partial(invitation, story), judged))
    check_replaced(recipe, planned, target)
    scratch = place_for(target.repo, planned.key)
    place = recipe.output.path or scratch
    bounded, findings = choose_disk(recipe, planned, place)
    for finding in findings:
        console.finding(finding)
    job = _Job(recipe, source, target, aim.adapters, place, scratch, force)
    asked = Asked(source.recipe, planned, place, allowed, started, known)
    report = (_publish_bounded if bounded else _publish_whole)(job, asked, console)
    return replace(report, findings=(*report.findings, *findings))


def _look_back(aim: Aim, *, force: bool) -> tuple[Plan, Judgement, Remembered]:
    """Whether the result is there already; local files are hashed only where it may be."""
    target, planned, known = aim.target, aim.planned, aim.known
    if target.head is None or not has_marks(target, mark_of(planned, target).weights):
        return planned, Judgement("new"), known
    identities = identify(planned.files, known)
    identified = planned.identified(identities)
    judged = look_back(target, mark_of(identified, target), target.head, force=force)
    return identified, judged, remembered_by(identities)


def _publish_whole(job: _Job, asked: Asked, console: Console) -> Report:
    """Make the whole result, then publish it from there."""
    source = fetch_source(job.source.pinned(job.recipe))
    planned = make_plan(source.recipe, source.origin)
    asked = replace(asked, recipe=source.recipe, plan=planned)
    report = with_recorded_checks(convert(asked, console), job.place)
    with _kept(job, console), one_at_a_time(job.target.repo):
        published = _publish(job, report, job.place, {}, console)
    report = _told(report, published)
    if job.recipe.output.path is not None:
        write_published(job.place, report)
        return report
    remove(job.place)
    return replace(report, output=None)


def _publish_bounded(job: _Job, asked: Asked, console: Console) -> Report:
    """Make the result shard by shard, each sent and dropped; then one commit."""
    sent: dict[str, Sent] = {}
    targets = [job.target]

    def hand_on(made: Made) -> None:
        targets[0] = ensure(targets[0])
        path = targets[0].place(made.shard.file)
        file = Proven(path, made.shard.size, made.sha256, made.path)
        sent[path] = send(targets[0], [file], console.note)[0]

    maker = partial(make_bounded, hand_on=hand_on)
    with converting(asked, console, maker) as done, one_at_a_time(job.target.repo):
        job = replace(job, target=targets[0])
        report = _told(done.report, _publish(job, done.report, done.folder, sent, console))
    remove(done.folder)
    return replace(report, output=None)


def _publish(
    job: _Job, report: Report, folder: Path, sent: Mapping[str, Sent], console: Console
) -> Published:
    target = ensure(job.target)
    adapters = _adapters(job, console)
    extra: tuple[Proven, ...] = ()
    if job.adapter_target is not None:
        _publish_adapters(job, job.adapter_target, adapters, console)
    else:
        extra = tuple(beside(target, adapters))
    story = Story(
        report=report,
        target=target,
        source=job.source.snapshot,
        adapters=adapter_names(job.recipe),
        linked=_adapter_repo(job),
    )
    console.note(f"publish  to {target.repo}")
    offer = make_offer(story, folder, extra)
    published = publish(target, offer, sent, console.note, force=job.force)
    for adapter in adapters:
        remove(adapter.folder)
    return published


def _adapters(job: _Job, console: Console) -> tuple[ProvenAdapter, ...]:
    wish = job.recipe.publish
    if wish is None or wish.adapter == "none":
        return ()
    return prove_adapters(job.recipe, job.scratch, console)


def _adapter_repo(job: _Job) -> str:
    """The repository of the adapter: its own one, or where it came from."""
    if job.adapter_target is not None:
        return job.adapter_target.repo
    found = [one.location.repo for one in job.recipe.lora.adapters] if job.recipe.lora else []
    return found[0] or "" if len(found) == 1 else ""


def _publish_adapters(
    job: _Job, target: Target, adapters: Sequence[ProvenAdapter], console: Console
) -> None:
    """Each adapter to the repository that is theirs; several get a folder each."""
    target = ensure(target)
    snapshot = job.source.snapshot
    for adapter in adapters:
        folder = "" if len(adapters) == 1 else adapter.name.rpartition("/")[2]
        story = Story(
            report=adapter.report,
            target=replace(target, folder=folder),
            base=snapshot.repo if snapshot else "",
            linked=job.target.repo,
            is_adapter=True,
        )
        console.note(f"publish  {adapter.name} to {target.repo}")
        publish(story.target, make_offer(story, adapter.folder), {}, console.note, force=job.force)


@contextmanager
def _kept(job: _Job, console: Console) -> Iterator[None]:
    """Say where the result waits for the next run, where it could not be published."""
    try:
        yield
    except UserError:
        console.note(f"what was made is kept in {job.place}: run again to publish it")
        raise


def _told(report: Report, published: Published) -> Report:
    """The report with what came of publishing."""
    return replace(
        report,
        status=_STATUS.get(published.fate, "up-to-date"),
        publish=published.as_json(),
        findings=(*report.findings, *published.findings, *_said(published)),
    )


def _said(published: Published) -> Iterator[Finding]:
    where = f"#{published.pr_number}" if published.pr_number else (published.commit or "")[:12]
    said = {
        "open": "this result is proposed there already; nothing was done",
        "merged": "this result was merged; nothing was done",
        "committed": "this result was committed before; nothing was done",
        "held": "the repository holds these very files; nothing was done",
        "refused": "its owner closed it, so no other one is opened",
    }.get(published.fate)
    if said is not None:
        hint = "--force opens another one all the same" if published.fate == "refused" else ""
        yield info("publish", f"{published.repo} {where}", said, hint)
