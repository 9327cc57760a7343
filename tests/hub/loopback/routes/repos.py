"""Repositories: create, delete, move, settings, branches and tags."""

from __future__ import annotations

from typing import Any

from tests.hub.loopback.access import open_repo, require_account
from tests.hub.loopback.messages import Answer, RefusedError, Request
from tests.hub.loopback.routes.table import route
from tests.hub.loopback.state import Hub


def create(hub: Hub, request: Request) -> Answer:
    """Make a repository; 409 with its address where there is one already."""
    token = require_account(hub, request)
    asked = request.json()
    namespace = asked.get("organization") or token.user.name
    name = f"{namespace}/{asked['name']}"
    if not token.may_create(namespace):
        message = f'You don\'t have the rights to create a model under the namespace "{namespace}"'
        raise RefusedError(403, message)
    url = f"{hub.endpoint}/{name}"
    with hub.lock:
        if name in hub.repos:
            message = "You already created this model repo"
            return Answer.of({"error": message, "url": url}, 409, {"X-Error-Message": message})
        hub.repo(name, private=asked.get("visibility") == "private")
    return Answer.of({"url": url, "name": name, "id": name})


def delete(hub: Hub, request: Request) -> Answer:
    """Remove a repository."""
    asked = request.json()
    namespace = asked.get("organization") or require_account(hub, request).user.name
    repo = open_repo(hub, request, f"{namespace}/{asked['name']}", "write")
    del hub.repos[repo.id]
    return Answer.of({})


def move(hub: Hub, request: Request) -> Answer:
    """Rename a repository; the old name leads to the new one."""
    asked = request.json()
    repo = open_repo(hub, request, asked["fromRepo"], "write")
    del hub.repos[repo.id]
    hub.moved[repo.id] = repo.id = asked["toRepo"]
    hub.repos[repo.id] = repo
    return Answer.of({})


def change_settings(hub: Hub, request: Request, repo: str) -> Answer:
    """Gate a repository, or change who sees it."""
    found = open_repo(hub, request, repo, "write")
    asked = request.json()
    found.gated = asked.get("gated", found.gated)
    found.private = asked.get("visibility", "private" if found.private else "public") == "private"
    return Answer.of({"private": found.private, "gated": found.gated})


def create_branch(hub: Hub, request: Request, repo: str, branch: str) -> Answer:
    """A branch, from the revision `startingPoint` or main."""
    found = open_repo(hub, request, repo, "write")
    start = found.resolve(request.json().get("startingPoint", "main"))
    return _create_ref(found.refs, f"refs/heads/{branch}", start.id)


def create_tag(hub: Hub, request: Request, repo: str, revision: str) -> Answer:
    """A tag on a revision."""
    found = open_repo(hub, request, repo, "write")
    return _create_ref(found.refs, f"refs/tags/{request.json()['tag']}", found.resolve(revision).id)


def delete_branch(hub: Hub, request: Request, repo: str, branch: str) -> Answer:
    """Remove a branch."""
    refs = open_repo(hub, request, repo, "write").refs
    if refs.pop(f"refs/heads/{branch}", None) is None:
        raise RefusedError(404, f"there is no branch {branch}", "RevisionNotFound")
    return Answer.of({})


def _create_ref(refs: dict[str, str], ref: str, commit: str) -> Answer:
    if ref in refs:
        raise RefusedError(409, f"Reference already exists: {ref}")
    refs[ref] = commit
    found: dict[str, Any] = {}
    return Answer.of(found)


ROUTES = (
    route("POST", "/api/repos/create", create),
    route("DELETE", "/api/repos/delete", delete),
    route("POST", "/api/repos/move", move),
    route("PUT", "/api/models/{repo}/settings", change_settings),
    route("POST", "/api/models/{repo}/branch/{branch}", create_branch),
    route("DELETE", "/api/models/{repo}/branch/{branch}", delete_branch),
    route("POST", "/api/models/{repo}/tag/{revision}", create_tag),
)
