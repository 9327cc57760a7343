"""What a model is, alone and in lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from tests.hub.loopback.access import open_repo, visible
from tests.hub.loopback.blobs import pointer
from tests.hub.loopback.discussions import timestamp
from tests.hub.loopback.messages import Answer, Request
from tests.hub.loopback.pages import page
from tests.hub.loopback.repositories import Commit, File, Repo
from tests.hub.loopback.routes.table import route
from tests.hub.loopback.state import Hub

# What lists hold when nothing more is asked for.
BRIEF = ("private", "downloads", "likes", "tags", "library_name", "pipeline_tag", "createdAt")
FULL = (*BRIEF, "author", "sha", "lastModified", "gated", "disabled", "siblings")


def model_info(hub: Hub, request: Request, repo: str, revision: str = "main") -> Answer:
    """All that is known of a model at a revision, or the fields that `expand` names."""
    found = open_repo(hub, request, repo)
    commit = found.resolve(revision)
    facts = _facts(found, commit)
    wanted = request.query.get("expand", [])
    if wanted:
        return Answer.of(_only(facts, wanted))
    if request.flag("blobs"):
        facts["siblings"] = [_with_blob(path, file) for path, file in commit.files.items()]
    if request.flag("securityStatus"):
        issues = [
            {"path": path, "level": level}
            for path, level in found.security.items()
            if level != "safe"
        ]
        facts["securityRepoStatus"] = {"scansDone": True, "filesWithIssues": issues}
    return Answer.of(facts)


def list_models(hub: Hub, request: Request) -> Answer:
    """Models by author, words in the name, and tags; sorted, a page at a time."""
    repos = [repo for repo in visible(hub, request) if _matches(repo, request)]
    order = request.one("sort", "id")
    found = [_facts(repo, repo.head) for repo in repos]
    found.sort(key=lambda facts: facts.get(order) or 0, reverse=order != "id")
    wanted = request.query.get("expand") or (FULL if request.flag("full") else BRIEF)
    extra = [name for name in ("cardData", "config") if request.flag(name)]
    items = [_only(facts, [*wanted, *extra]) for facts in found]
    limit = int(request.one("limit", str(hub.page_size)))
    return page(request, items, min(limit, hub.page_size))


def _matches(repo: Repo, request: Request) -> bool:
    author, search = request.one("author"), request.one("search")
    tags = _card(repo.head).get("tags", []) + repo.facts.get("tags", [])
    wanted = [*request.query.get("filter", [])]
    return (
        author in ("", repo.namespace)
        and search.lower() in repo.id.lower()
        and all(tag in tags or tag == repo.facts.get("library_name") for tag in wanted)
    )


def _facts(repo: Repo, commit: Commit) -> dict[str, Any]:
    card = _card(commit)
    tags = [*card.get("tags", []), *repo.facts.get("tags", [])]
    return {
        "_id": f"id-{repo.id}",
        "id": repo.id,
        "modelId": repo.id,
        "author": repo.namespace,
        "sha": commit.id,
        "private": repo.private,
        "gated": repo.gated,
        "disabled": repo.disabled,
        "downloads": 0,
        "likes": 0,
        "library_name": card.get("library_name"),
        "pipeline_tag": card.get("pipeline_tag"),
        "createdAt": timestamp(0),
        "lastModified": timestamp(commit.second),
        "cardData": card,
        "usedStorage": repo.used_storage,
        "siblings": [{"rfilename": path} for path in commit.files],
        **repo.facts,
        "tags": tags,
    }


def _card(commit: Commit) -> dict[str, Any]:
    readme = commit.files.get("README.md")
    if readme is None:
        return {}
    text = readme.blob.read(0, readme.blob.size).decode(errors="replace")
    if not text.startswith("---\n"):
        return {}
    found = yaml.safe_load(text.split("---\n")[1])
    return found if isinstance(found, dict) else {}


def _with_blob(path: str, file: File) -> dict[str, Any]:
    item: dict[str, Any] = {"rfilename": path, "blobId": file.oid, "size": file.blob.size}
    if file.lfs:
        size = len(pointer(file.blob))
        item["lfs"] = {"sha256": file.blob.sha256, "size": file.blob.size, "pointerSize": size}
    return item


def _only(facts: Mapping[str, Any], names: tuple[str, ...] | list[str]) -> dict[str, Any]:
    kept = {name: facts[name] for name in names if facts.get(name) is not None}
    return {"_id": facts["_id"], "id": facts["id"], "modelId": facts["id"], **kept}


ROUTES = (
    route("GET", "/api/models", list_models),
    route("GET", "/api/models/{repo}", model_info),
    route("GET", "/api/models/{repo}/revision/{revision}", model_info),
)
