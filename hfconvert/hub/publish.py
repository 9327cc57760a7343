"""Publish a proven result: exactly one commit, whatever happened before and whatever goes wrong.

What was done before is found again by its mark, before every attempt. So an answer that was lost on the way,
a run that was killed, and two runs at once all end in one pull request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from hfconvert.errors import Problem, UserError
from hfconvert.findings import Finding
from hfconvert.hub.about import hub_problem
from hfconvert.hub.arrived import arrived_otherwise, differences
from hfconvert.hub.commit import Change, Committed, commit, plan_change
from hfconvert.hub.earlier import Judgement, Proposal, find_proposals, look_back
from hfconvert.hub.offer import Fate, Offer, Published
from hfconvert.hub.source import Snapshot
from hfconvert.hub.talk import close, close_for, say_once, supersede
from hfconvert.hub.target import Target, moved
from hfconvert.hub.uploads import Sent
from hfconvert.hub.waits import backoff

ATTEMPTS = 5


def publish(
    target: Target,
    offer: Offer,
    sent: Mapping[str, Sent],
    say: Callable[[str], object],
    *,
    force: bool,
) -> Published:
    """Commit the files of the offer, those in `sent` as they were sent already. `say` is told of uploads.

    UserError (exit 4) where the repository's own weights changed since they were read, where the Hub refuses,
    or where what arrived is not what was sent.
    """
    problem = None
    tried: Change | None = None
    for attempt in range(ATTEMPTS):
        head = target.look()
        marked = replace(offer, mark=replace(offer.mark, base=head.commit))
        known = look_back(target, marked.mark, head, force=force)
        if known.fate != "new":
            return _found(target, marked, known, tried)
        _check_unmoved(target, head)  # after our own commit, which moves it too
        change = plan_change(target, marked, sent, head, say)
        sent = {**sent, **{one.file.path: one for one in change.sent}}
        if change.is_empty:
            return Published(fate="held", repo=target.repo, commit=head.commit)
        made = commit(target, marked, change)
        if isinstance(made, Committed):
            return _made(target, marked, change, made, known)
        problem, tried = made.problem, change
        time.sleep(backoff(attempt, made.wait))
    assert problem is not None  # noqa: S101  # there is at least one attempt
    raise UserError(problem)


def finish(target: Target, invite: Callable[[int], str], known: Judgement) -> Published:
    """What was found to be done, with what an earlier run may have left unsaid."""
    found = known.found
    if found is None:
        return Published(fate=_fate(known), repo=target.repo, commit=known.commit)
    findings: tuple[Finding, ...] = ()
    if known.fate == "open":
        findings = (
            *say_once(target, found.num, invite(found.num)),
            *supersede(target, known.stale, found.num),
        )
    return Published(
        fate=_fate(known),
        repo=target.repo,
        pr_url=found.url,
        pr_number=found.num,
        commit=found.commit or None,
        findings=findings,
    )


def _fate(known: Judgement) -> Fate:
    if known.fate == "new":
        raise AssertionError("nothing was found")
    return known.fate


def _found(target: Target, offer: Offer, known: Judgement, tried: Change | None) -> Published:
    """What was done before; after an attempt of this run whose answer was lost, that was this run."""
    done = finish(target, offer.invite, known)
    if tried is None or known.fate not in ("open", "committed"):
        return done
    revision = f"refs/pr/{done.pr_number}" if done.pr_number else str(done.commit)
    base = known.found.marker.base if known.found else tried.base.commit
    if base == tried.base.commit:
        _check_arrived(target, revision, tried, done.pr_number)
    return replace(done, fate="made")


def _made(
    target: Target, offer: Offer, change: Change, made: Committed, known: Judgement
) -> Published:
    """The commit that the Hub made: compared with what was sent, then said how to try it."""
    num = made.pr_number
    if num is None:
        _check_arrived(target, made.commit, change, None)
        return Published(fate="made", repo=target.repo, commit=made.commit)
    twin = _older_twin(target, offer, num)
    if twin is not None:
        close_for(target, num, twin.num)
        return finish(target, offer.invite, Judgement("open", twin))
    _check_arrived(target, f"refs/pr/{num}", change, num)
    findings = (
        *say_once(target, num, offer.invite(num)),
        *supersede(target, known.stale, num),
    )
    return Published(
        fate="made",
        repo=target.repo,
        pr_url=made.pr_url,
        pr_number=num,
        commit=made.commit,
        findings=findings,
    )


def _older_twin(target: Target, offer: Offer, num: int) -> Proposal | None:
    """The pull request that another run opened with the same result at the same time, before this one."""
    return next(
        (
            one
            for one in reversed(find_proposals(target, offer.mark.weights))
            if one.num < num
            and one.status in ("open", "draft")
            and (one.marker.digest, one.marker.base) == (offer.mark.digest, offer.mark.base)
        ),
        None,
    )


def _check_arrived(target: Target, revision: str, change: Change, num: int | None) -> None:
    """UserError (exit 4) where the Hub holds something else; a pull request of that kind is closed."""
    faults = differences(target, revision, change.base, change.sent, change.removed)
    if not faults:
        return
    if num is not None:
        close(target, num, f"Closed: this is not what was sent. {'; '.join(faults[:5])}")
    raise UserError(arrived_otherwise(target, revision, faults))


def _check_unmoved(target: Target, head: Snapshot) -> None:
    """UserError (exit 4) where the repository that was converted is another by now."""
    if target.origin is None:
        return
    changed = moved(target.origin.files, head.files, target.folder)
    if changed:
        raise UserError(_changed(target, changed))


def _changed(target: Target, changed: list[str]) -> Problem:
    return hub_problem(
        target.about,
        f"its main branch no longer holds what was converted: {', '.join(changed[:5])}",
        why="somebody committed meanwhile, or the recipe names another revision than main",
        do="run again: the newest commit is then the source",
    )
