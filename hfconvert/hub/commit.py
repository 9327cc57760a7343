"""One commit, asked for once: what it does, and what the Hub's answer means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from huggingface_hub import CommitOperationDelete
from huggingface_hub.errors import HfHubHTTPError

from hfconvert.errors import Problem
from hfconvert.hub.about import hub_problem
from hfconvert.hub.arrived import holds
from hfconvert.hub.client import raise_told
from hfconvert.hub.failures import FAILURES, NetworkError, explain, find_cause
from hfconvert.hub.offer import Offer
from hfconvert.hub.source import Snapshot
from hfconvert.hub.target import MAIN, Target, superseded
from hfconvert.hub.uploads import Proven, Sent, send
from hfconvert.hub.waits import LONGEST_WAIT, asked_wait

_AGAIN = (
    409,
    412,
    429,
    *(408, 500, 502, 503, 504),
)  # after those in brackets a commit may be there


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit does on top of `base`."""

    base: Snapshot
    sent: tuple[Sent, ...]
    removed: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the repository holds all of it already."""
        return not self.sent and not self.removed


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit that the Hub made, and the pull request that it opened for it."""

    commit: str
    pr_number: int | None = None
    pr_url: str | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """No commit came back, or a commit without its pull request: whether one was made is to be looked for.

    `wait` is how many seconds the Hub wants to be left alone, None where it does not say.
    """

    problem: Problem
    wait: float | None = None


def plan_change(
    target: Target,
    offer: Offer,
    sent: Mapping[str, Sent],
    base: Snapshot,
    say: Callable[[str], object],
) -> Change:
    """What is to be done on top of a commit: what it holds already is left out, what loaders would read
    instead is removed. Files that are not sent yet are."""
    wanted = [*offer.files, *([offer.card(base)] if offer.card else [])]
    new = [file for file in wanted if not holds(base, file)]
    missing = send(target, [file for file in new if not _is_in(sent, file)], say)
    known = {**sent, **{one.file.path: one for one in missing}}
    removed = superseded(base.files, [file.path for file in wanted])
    return Change(base, tuple(known[file.path] for file in new), removed)


def _is_in(sent: Mapping[str, Sent], file: Proven) -> bool:
    return file.path in sent and sent[file.path].file.sha256 == file.sha256


def commit(target: Target, offer: Offer, change: Change) -> Committed | Trouble:
    """Ask for the commit, once. UserError (exit 4) where the Hub refuses it for good."""
    proposes = target.how == "pull_request"
    operations: list[Any] = [one.operation for one in change.sent]
    operations += [CommitOperationDelete(path) for path in change.removed]
    mark = offer.mark
    told = offer.describe(change.base, change.removed)
    try:
        made = target.client.api.create_commit(
            target.repo,
            operations,
            commit_message=offer.title,
            commit_description=f"{told}\n\n{mark.as_comment() if proposes else mark.as_trailer()}",
            revision=MAIN,
            create_pr=proposes,
            parent_commit=change.base.commit,
        )
    except (KeyError, TypeError):
        return Trouble(_no_number(target))  # the answer lacks what the client wants of it
    except FAILURES as error:
        return _trouble(target, error)
    if not proposes:
        return Committed(made.oid)
    if made.pr_url is None or made.pr_num is None:
        return Trouble(_no_number(target))
    return Committed(made.oid, made.pr_num, made.pr_url)


def _trouble(target: Target, error: Exception) -> Trouble:
    """What went wrong, where another attempt is in order; else it is raised."""
    cause = find_cause(error)
    wait = None
    if cause is None:
        return Trouble(_no_number(target))  # the client makes nothing of the answer
    if isinstance(cause, HfHubHTTPError):
        wait = asked_wait(cause.response.headers)
        if cause.response.status_code not in _AGAIN or (wait or 0) > LONGEST_WAIT:
            raise_told(error, target.about)
    elif not isinstance(cause, NetworkError):
        raise_told(error, target.about)
    return Trouble(explain(cause, target.about), wait)


def _no_number(target: Target) -> Problem:
    return hub_problem(
        target.about,
        "no pull request came of it: the Hub's answer names none",
        why="the Hub took the commit in another way, or something on the way changed its answer",
        do=f"look at {target.about.page}/discussions, then run again",
    )
