"""What hfconvert did to a repository before, found again by its mark; and what that means for a result.

Neither a title nor an author alone makes a pull request ours: another one of the same title is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from huggingface_hub import DiscussionComment
from huggingface_hub.community import DiscussionCommit

from hfconvert.hub.marker import Marker, read_marker
from hfconvert.hub.secrets import without_password
from hfconvert.hub.source import Snapshot, pin
from hfconvert.hub.target import MAIN, Target, moved, stem_of

Fate = Literal["new", "open", "merged", "refused", "committed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A pull request of ours: `superseded` where it was us who closed it, for another one.

    `commit` is the one that it brings, or that brought it into the main branch.
    """

    num: int
    url: str
    status: str  # open, draft, closed, merged
    marker: Marker
    commit: str
    superseded: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is to be done with a result: `new`, or nothing, since it is `open`, `merged` or `refused` there,
    or was `committed` without a pull request.

    `found` is the pull request that says so, or `commit` the commit; `stale` are the pull requests that this
    one takes the place of.
    """

    fate: Fate
    found: Proposal | None = None
    commit: str = ""
    stale: tuple[Proposal, ...] = ()


def look_back(target: Target, mark: Marker, head: Snapshot, *, force: bool) -> Judgement:
    """What a result with that mark comes to, beside what was done before.

    A pull request that is open with the same digest, on a head whose weights, indexes and configuration did
    not move since, is all there is to do; so is one that was merged, and a commit. What its owner closed
    stays closed. With `force`, only what is open counts.
    """
    if target.how == "commit":
        return Judgement("new") if force else _committed(target, mark, head)
    return judge(find_proposals(target, mark.weights), mark, target, head, force=force)


def find_proposals(target: Target, weights: str) -> tuple[Proposal, ...]:
    """Pull requests of this account with our mark that make these weights, newest first."""
    client, repo = target.client, target.repo
    if target.head is None:
        return ()
    listed = client.ask(
        target.about,
        lambda: list(
            client.api.get_repo_discussions(
                repo, author=target.account.name, discussion_type="pull_request"
            )
        ),
    )
    own = sorted(
        (one.num for one in listed if one.is_pull_request and one.author == target.account.name),
        reverse=True,
    )
    found = (_read(target, num) for num in own)
    return tuple(one for one in found if one and one.marker.weights in ("", weights))


def judge(
    proposals: Sequence[Proposal], mark: Marker, target: Target, head: Snapshot, *, force: bool
) -> Judgement:
    """The same, from the pull requests of ours for these weights, newest first."""
    opened = [one for one in proposals if one.status in ("open", "draft")]
    for one in opened:
        same = one.marker.digest == mark.digest
        if same and not _moved(target, head, one.marker.base):
            older = (other for other in opened if other.num < one.num)
            return Judgement("open", one, stale=tuple(older))
    for one in proposals:
        merged = one.status == "merged" and not force
        if merged and _holds(one.marker, f"refs/pr/{one.num}", mark, target, head):
            return Judgement("merged", one)
    last = next((one for one in proposals if not one.superseded), None)
    if last is not None and last.status == "closed" and not force:
        return Judgement("refused", last)
    return Judgement("new", stale=tuple(opened))


def has_marks(target: Target, weights: str) -> bool:
    """Whether anything of ours is there, in the way in which the target takes results."""
    if target.how == "commit":
        return next(_own_commits(target, weights), None) is not None
    return bool(find_proposals(target, weights))


def put_there(target: Target, weights: str) -> bool:
    """Whether the weights of that name on the main branch came from hfconvert, by a merge or a commit."""
    if next(_own_commits(target, weights), None) is not None:
        return True
    return any(one.status == "merged" for one in find_proposals(target, weights))


def comments_of(details: Any) -> list[DiscussionComment]:
    """The comments of a discussion, its description first; without those that were hidden."""
    return [
        event
        for event in details.events
        if isinstance(event, DiscussionComment) and isinstance(event.content, str)
    ]


def _read(target: Target, num: int) -> Proposal | None:
    """A pull request with its mark; None where it has none."""
    client, repo = target.client, target.repo
    details = client.ask(target.about, lambda: client.api.get_discussion_details(repo, num))
    comments = comments_of(details)
    marker = read_marker(comments[0].content) if comments else None
    if marker is None or not marker.digest:
        return None
    own = (one for one in comments[1:] if one.author == target.account.name)
    said = (read_marker(one.content) for one in own)
    return Proposal(
        num=num,
        url=without_password(details.url),
        status=details.status,
        marker=marker,
        commit=details.merge_commit_oid or _last_commit(details),
        superseded=any(one and one.superseded_by is not None for one in said),
    )


def _last_commit(details: Any) -> str:
    oids = [event.oid for event in details.events if isinstance(event, DiscussionCommit)]
    return oids[-1] if oids else ""


def _committed(target: Target, mark: Marker, head: Snapshot) -> Judgement:
    for commit, marker in _own_commits(target, mark.weights):
        if _holds(marker, commit, mark, target, head) and _brought(target, commit, mark.weights):
            return Judgement("committed", commit=commit)
    return Judgement("new")


def _brought(target: Target, commit: str, weights: str) -> bool:
    """Whether the weights are in that commit: anybody's message may hold a trailer like ours."""
    files = pin(target.client, target.repo, commit).files
    return any(stem_of([path]) == weights for path in files)


def _own_commits(target: Target, weights: str) -> Iterator[tuple[str, Marker]]:
    """Commits of the main branch with our trailer that made these weights, newest first."""
    client, repo = target.client, target.repo
    if target.head is None:
        return
    commits = client.ask(target.about, lambda: client.api.list_repo_commits(repo, revision=MAIN))
    for commit in commits:
        marker = read_marker(commit.message or "")
        if marker is not None and marker.digest and marker.weights in ("", weights):
            yield commit.commit_id, marker


def _holds(earlier: Marker, revision: str, mark: Marker, target: Target, head: Snapshot) -> bool:
    """Whether the main branch took what that revision brought: by the digest; or, since a repository that
    took its own conversion is another source from then on, by the same recipe and the same weights."""
    if not earlier.digest or earlier.digest == mark.digest:
        return bool(earlier.digest)
    if not mark.recipe or earlier.recipe != mark.recipe or target.origin is None:
        return False
    return not _moved(target, head, revision)


def _moved(target: Target, head: Snapshot, revision: str) -> bool:
    """Whether weights, indexes or configuration of the main branch are others than at that revision."""
    client, repo = target.client, target.repo
    if not revision or revision == head.commit:
        return False
    about = client.about(repo, revision=revision)
    if not client.ask(about, lambda: client.api.revision_exists(repo, revision)):
        return True
    return bool(moved(pin(client, repo, revision).files, head.files, target.folder))
