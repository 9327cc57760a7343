"""Discussions and pull requests: list, read, comment, close, merge."""

from __future__ import annotations

from tests.hub.loopback.access import check_pull_requests, open_repo, require_account
from tests.hub.loopback.discussions import Discussion
from tests.hub.loopback.messages import Answer, RefusedError, Request
from tests.hub.loopback.repositories import File, Repo
from tests.hub.loopback.routes.table import route
from tests.hub.loopback.state import Hub

PAGE = 10


def list_discussions(hub: Hub, request: Request, repo: str) -> Answer:
    """A page of the discussions, newest first."""
    found = _open(hub, request, repo)
    wanted = [item for item in reversed(found.discussions) if _matches(item, request)]
    start = int(request.one("p", "0")) * PAGE
    closed = sum(item.status in ("closed", "merged") for item in wanted)
    return Answer.of(
        {
            "discussions": [item.as_json(repo) for item in wanted[start : start + PAGE]],
            "count": len(wanted),
            "start": start,
            "numClosedDiscussions": closed,
        }
    )


def details(hub: Hub, request: Request, repo: str, num: str) -> Answer:
    """One discussion with all its events."""
    found = _open(hub, request, repo)
    one = found.discussion(int(num))
    return Answer.of(one.details(repo, _conflicts(found, one)))


def create(hub: Hub, request: Request, repo: str) -> Answer:
    """A discussion, or a draft of a pull request without commits."""
    found = _open(hub, request, repo, writing=True)
    asked = request.json()
    draft = bool(asked.get("pullRequest"))
    author = require_account(hub, request).user.name
    with hub.lock:
        made = Discussion(
            num=len(found.discussions) + 1,
            title=asked["title"],
            author=author,
            status="draft" if draft else "open",
            base=found.head.id if draft else None,
        )
        made.comment(author, asked["description"])
        found.discussions.append(made)
        if draft:
            found.refs[made.ref] = found.head.id
    return Answer.of(made.as_json(repo))


def comment(hub: Hub, request: Request, repo: str, num: str) -> Answer:
    """Add a comment."""
    one, author = _change(hub, request, repo, num)
    return Answer.of({"newMessage": one.comment(author, request.json()["comment"]).as_json()})


def edit_comment(hub: Hub, request: Request, repo: str, num: str, comment: str) -> Answer:
    """Replace a comment; only whoever wrote it may."""
    one, author = _change(hub, request, repo, num)
    found = [event for event in one.comments if event.id == comment]
    if not found:
        raise RefusedError(404, "No comment found")
    if found[0].author != author:
        raise RefusedError(403, "You can only edit your own comments")
    one.edit(found[0], request.json()["content"])
    return Answer.of({"updatedComment": found[0].as_json()})


def change_title(hub: Hub, request: Request, repo: str, num: str) -> Answer:
    """Give it another title."""
    one, author = _change(hub, request, repo, num)
    return Answer.of({"newTitle": one.rename(author, request.json()["title"]).as_json()})


def change_status(hub: Hub, request: Request, repo: str, num: str) -> Answer:
    """Close it or open it again: whoever opened it, or who may write."""
    one, author = _change(hub, request, repo, num)
    asked = request.json()
    if one.author != author:
        open_repo(hub, request, repo, "write")
    if one.status == "merged":
        raise RefusedError(400, "A merged pull request cannot change its status")
    if asked.get("comment"):
        one.comment(author, asked["comment"])
    return Answer.of({"newStatus": one.change_status(author, asked["status"]).as_json()})


def merge(hub: Hub, request: Request, repo: str, num: str) -> Answer:
    """Bring the changes of an open pull request into main, as one commit."""
    found = open_repo(hub, request, repo, "write")
    one, author = _change(hub, request, repo, num)
    with hub.lock:
        if not one.is_pull_request or one.status != "open":
            raise RefusedError(400, f"This pull request is {one.status}")
        if conflicts := _conflicts(found, one):
            raise RefusedError(409, f"There are conflicts in {', '.join(conflicts)}")
        changes = _changes(found, one)
        title = f"{one.title} (#{one.num})"
        one.merge_commit = found.commit(changes, title=title, author=author).id
        one.change_status(author, "merged")
    return Answer.of({})


def _open(hub: Hub, request: Request, repo: str, *, writing: bool = False) -> Repo:
    found = open_repo(hub, request, repo, "discuss" if writing else "read")
    check_pull_requests(found)
    return found


def _change(hub: Hub, request: Request, repo: str, num: str) -> tuple[Discussion, str]:
    found = _open(hub, request, repo, writing=True)
    return found.discussion(int(num)), require_account(hub, request).user.name


def _matches(item: Discussion, request: Request) -> bool:
    kind, status = request.one("type"), request.one("status")
    kinds = {"pull_request": item.is_pull_request, "discussion": not item.is_pull_request}
    statuses = {"open": item.status in ("open", "draft"), "closed": item.status == "closed"}
    return (
        kinds.get(kind, True)
        and statuses.get(status, True)
        and request.one("author") in ("", item.author)
    )


def _changes(repo: Repo, one: Discussion) -> dict[str, File | None]:
    """What the pull request changes, against the commit that it began at."""
    assert one.base
    before, after = repo.commits[one.base].files, repo.commits[repo.refs[one.ref]].files
    paths = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    return {path: after.get(path) for path in sorted(paths)}


def _conflicts(repo: Repo, one: Discussion) -> list[str]:
    if not one.is_pull_request or one.status == "merged":
        return []
    assert one.base
    before, now = repo.commits[one.base].files, repo.head.files
    wanted = _changes(repo, one)
    return [path for path, file in wanted.items() if now.get(path) not in (before.get(path), file)]


ROUTES = (
    route("GET", "/api/models/{repo}/discussions", list_discussions),
    route("POST", "/api/models/{repo}/discussions", create),
    route("GET", "/api/models/{repo}/discussions/{num}", details),
    route("POST", "/api/models/{repo}/discussions/{num}/comment", comment),
    route("POST", "/api/models/{repo}/discussions/{num}/comment/{comment}/edit", edit_comment),
    route("POST", "/api/models/{repo}/discussions/{num}/title", change_title),
    route("POST", "/api/models/{repo}/discussions/{num}/status", change_status),
    route("POST", "/api/models/{repo}/discussions/{num}/merge", merge),
)
