"""What a repository holds at a revision: tree, paths, refs, commits."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from typing import Any

from tests.hub.loopback.access import open_repo
from tests.hub.loopback.blobs import git_oid, pointer
from tests.hub.loopback.discussions import timestamp
from tests.hub.loopback.messages import Answer, RefusedError, Request
from tests.hub.loopback.pages import page
from tests.hub.loopback.repositories import Commit, File, Repo
from tests.hub.loopback.routes.table import route
from tests.hub.loopback.state import Hub

EXPANDED_PAGE = 50


def list_tree(hub: Hub, request: Request, repo: str, revision: str, path: str = "") -> Answer:
    """Files and folders below a path, all levels if `recursive`."""
    found = open_repo(hub, request, repo)
    commit = found.resolve(revision)
    below = f"{path}/" if path else ""
    if path and not any(name.startswith(below) for name in commit.files):
        headers = {"X-Repo-Commit": commit.id}
        raise RefusedError(404, f"{path} does not exist on {revision}", "EntryNotFound", headers)
    expand = request.flag("expand")
    items = list(_tree(found, commit, below, recursive=request.flag("recursive"), expand=expand))
    size = min(hub.page_size, EXPANDED_PAGE) if expand else hub.page_size
    return page(request, items, size)


def paths_info(hub: Hub, request: Request, repo: str, revision: str) -> Answer:
    """The files and folders of these paths; those that are not there are left out."""
    found = open_repo(hub, request, repo)
    commit = found.resolve(revision)
    paths, expand = _asked_paths(request)
    items = {item["path"]: item for item in _tree(found, commit, "", recursive=True, expand=expand)}
    return Answer.of([items[path] for path in paths if path in items])


def list_refs(hub: Hub, request: Request, repo: str) -> Answer:
    """Branches and tags, and pull requests if asked."""
    found = open_repo(hub, request, repo)
    kinds = {"branches": "refs/heads/", "converts": "refs/convert/", "tags": "refs/tags/"}
    if request.flag("include_prs"):
        kinds["pullRequests"] = "refs/pr/"
    return Answer.of({kind: list(_refs(found, start)) for kind, start in kinds.items()})


def list_commits(hub: Hub, request: Request, repo: str, revision: str) -> Answer:
    """The history of a revision, newest first."""
    found = open_repo(hub, request, repo)
    history = [
        {
            "id": commit.id,
            "title": commit.title,
            "message": commit.message,
            "authors": [{"user": commit.author}],
            "date": timestamp(commit.second),
        }
        for commit in found.history(found.resolve(revision))
    ]
    return page(request, history, hub.page_size)


def _tree(
    repo: Repo, commit: Commit, below: str, *, recursive: bool, expand: bool
) -> Iterator[dict[str, Any]]:
    folders: set[str] = set()
    extra = {"lastCommit": _last(commit)} if expand else {}
    for path, file in commit.files.items():
        if not path.startswith(below):
            continue
        inner = path.removeprefix(below).split("/")
        depths = range(1, len(inner)) if recursive else range(1, min(2, len(inner)))
        for folder in (below + "/".join(inner[:depth]) for depth in depths):
            if folder not in folders:
                folders.add(folder)
                yield {"type": "directory", "path": folder, "oid": _folder_oid(commit, folder)}
        if recursive or len(inner) == 1:
            security = {"securityFileStatus": _scan(repo, path)} if expand else {}
            yield {**_file(path, file), **extra, **security}


def _file(path: str, file: File) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "file", "path": path, "size": file.blob.size, "oid": file.oid}
    if file.lfs:
        size = len(pointer(file.blob))
        item["lfs"] = {"oid": file.blob.sha256, "size": file.blob.size, "pointerSize": size}
    if file.xet:
        item["xetHash"] = file.xet
    return item


def _scan(repo: Repo, path: str) -> dict[str, Any]:
    status = repo.security.get(path, "safe")
    imports = {"status": status, "pickleImports": []}
    return {"status": status, "avScan": {"status": status}, "pickleImportScan": imports}


def _last(commit: Commit) -> dict[str, str]:
    return {"id": commit.id, "title": commit.title, "date": timestamp(commit.second)}


def _folder_oid(commit: Commit, folder: str) -> str:
    inner = [
        (path, file.oid) for path, file in commit.files.items() if path.startswith(f"{folder}/")
    ]
    return git_oid(json.dumps(inner).encode())


def _refs(repo: Repo, start: str) -> Iterator[dict[str, str]]:
    for ref, commit in repo.refs.items():
        if ref.startswith(start):
            yield {"name": ref.removeprefix(start), "ref": ref, "targetCommit": commit}


def _asked_paths(request: Request) -> tuple[list[str], bool]:
    if request.headers.get("content-type", "").startswith("application/json"):
        asked = request.json()
        return list(asked["paths"]), bool(asked.get("expand"))
    form = urllib.parse.parse_qs(request.body().decode())
    return form.get("paths", []), form.get("expand", [""])[0].lower() == "true"


ROUTES = (
    route("GET", "/api/models/{repo}/tree/{revision}", list_tree),
    route("GET", "/api/models/{repo}/tree/{revision}/{path}", list_tree),
    route("POST", "/api/models/{repo}/paths-info/{revision}", paths_info),
    route("GET", "/api/models/{repo}/refs", list_refs),
    route("GET", "/api/models/{repo}/commits/{revision}", list_commits),
)
