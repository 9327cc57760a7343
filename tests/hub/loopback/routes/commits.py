"""Commits: one request, a line for the header and one for each change."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.hub.loopback.access import check_pull_requests, open_repo, require_account
from tests.hub.loopback.blobs import MemoryBlob
from tests.hub.loopback.discussions import Discussion
from tests.hub.loopback.messages import Answer, RefusedError, Request
from tests.hub.loopback.repositories import Commit, File, Repo
from tests.hub.loopback.routes.table import route
from tests.hub.loopback.state import LARGE, Hub


@dataclass(frozen=True, slots=True)
class Sent:
    """What a commit request says."""

    title: str
    message: str
    parent: str | None
    changes: Mapping[str, File | None]
    author: str


def commit(hub: Hub, request: Request, repo: str, revision: str) -> Answer:
    """Commit to a branch or an open pull request, or (`create_pr`) open a pull request with the commit."""
    opening = request.flag("create_pr")
    proposed = opening or revision.startswith("refs/pr/")
    found = open_repo(hub, request, repo, "discuss" if proposed else "write")
    if proposed:
        check_pull_requests(found)
    author = require_account(hub, request).user.name
    lines = [json.loads(line) for line in request.body().splitlines() if line.strip()]
    with hub.lock:
        base = found.resolve(revision)
        sent = _read(hub, lines, base, author)
        added = {file.blob.sha256: file.blob.size for file in sent.changes.values() if file}
        hub.check_storage(found.namespace, sum(added.values()))
        if opening:
            return _opened(hub, found, base, sent)
        made = _pushed(found, base, _ref(found, revision), sent)
    return _answer(hub, found, made)


def _read(hub: Hub, lines: list[dict[str, Any]], base: Commit, author: str) -> Sent:
    header: dict[str, Any] = {}
    changes: dict[str, File | None] = {}
    for line in lines:
        value = line["value"]
        match line["key"]:
            case "header":
                header = value
            case "file":
                changes[value["path"]] = _regular(value)
            case "lfsFile":
                changes[value["path"]] = hub.object(value["oid"], value["path"])
            case kind:
                changes.update(_deleted(kind, value["path"], base))
    if not header.get("summary"):
        raise RefusedError(400, "the commit has no summary")
    parent = header.get("parentCommit")
    return Sent(header["summary"], header.get("description", ""), parent, changes, author)


def _regular(value: dict[str, str]) -> File:
    data = base64.b64decode(value["content"])
    if len(data) > LARGE:
        message = "Your push was rejected because it contains files larger than 10 MiB."
        raise RefusedError(400, f"{message} Offending files: - {value['path']}")
    return File(MemoryBlob(data), lfs=False)


def _deleted(kind: str, path: str, base: Commit) -> dict[str, File | None]:
    if kind == "deletedFile":
        gone = [path] if path in base.files else []
    else:
        gone = [name for name in base.files if name.startswith(f"{path.rstrip('/')}/")]
    if not gone:
        message = f"A file with this name doesn't exist: {path}"
        raise RefusedError(404, message, "EntryNotFound")
    return dict.fromkeys(gone)


def _ref(repo: Repo, revision: str) -> str:
    for ref in (revision, f"refs/heads/{revision}"):
        if ref in repo.refs and ref.startswith(("refs/heads/", "refs/pr/")):
            return ref
    raise RefusedError(400, f"{revision} is no branch")


def _pushed(repo: Repo, base: Commit, ref: str, sent: Sent) -> Commit:
    if sent.parent and not base.id.startswith(sent.parent):
        raise RefusedError(412, "A commit has happened since. Please refresh and try again.")
    made = repo.commit(
        sent.changes, ref=ref, title=sent.title, message=sent.message, author=sent.author
    )
    for discussion in repo.discussions:
        if discussion.ref == ref and discussion.is_pull_request:
            discussion.add_commit(sent.author, sent.title, made.id)
    return made


def _opened(hub: Hub, repo: Repo, head: Commit, sent: Sent) -> Answer:
    """A pull request of one commit, on top of the parent that was asked for."""
    base = repo.resolve(sent.parent) if sent.parent else head
    opened = Discussion(
        num=len(repo.discussions) + 1,
        title=sent.title,
        author=sent.author,
        status="open",
        base=base.id,
    )
    made = repo.commit(
        sent.changes,
        ref=opened.ref,
        parent=base.id,
        title=sent.title,
        message=sent.message,
        author=sent.author,
    )
    repo.discussions.append(opened)
    opened.comment(sent.author, sent.message)
    opened.add_commit(sent.author, sent.title, made.id)
    url = f"{hub.endpoint}/{repo.id}/discussions/{opened.num}"
    return _answer(hub, repo, made, {"pullRequestUrl": url})


def _answer(hub: Hub, repo: Repo, made: Commit, extra: Mapping[str, str] | None = None) -> Answer:
    url = f"{hub.endpoint}/{repo.id}/commit/{made.id}"
    told = {"success": True, "commitOid": made.id, "commitUrl": url, "hookOutput": ""}
    return Answer.of({**told, **(extra or {})})


ROUTES = (route("POST", "/api/models/{repo}/commit/{revision}", commit),)
