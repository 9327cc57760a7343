"""Before an upload: which files go to LFS, which are stored by git, which are there already."""

from __future__ import annotations

import base64
from typing import Any

from tests.hub.loopback.access import check_pull_requests, open_repo
from tests.hub.loopback.messages import Answer, Request
from tests.hub.loopback.repositories import Repo
from tests.hub.loopback.routes.table import route
from tests.hub.loopback.state import Hub, is_large


def preupload(hub: Hub, request: Request, repo: str, revision: str) -> Answer:
    """The mode of each file, and the id that the path has now."""
    opening = request.flag("create_pr")
    found = open_repo(hub, request, repo, "discuss" if opening else "write")
    if opening:
        check_pull_requests(found)
    files = found.resolve(revision).files
    told = [_mode(found, asked) for asked in request.json()["files"]]
    for item in told:
        if item["path"] in files:
            item["oid"] = files[item["path"]].etag
    return Answer.of({"files": told})


def duplicate(hub: Hub, request: Request, repo: str) -> Answer:
    """Large files of this repository become known to another: here every object is known to all."""
    open_repo(hub, request, repo)
    target = request.json()["target"]["name"]
    open_repo(hub, request, target, "write")
    return Answer.of({"failed": []})


def _mode(repo: Repo, asked: dict[str, Any]) -> dict[str, Any]:
    path, size = asked["path"], asked["size"]
    large = is_large(path, size, base64.b64decode(asked["sample"]))
    mode = repo.upload_modes.get(path, "lfs" if large else "regular")
    return {"path": path, "uploadMode": mode, "shouldIgnore": False}


ROUTES = (
    route("POST", "/api/models/{repo}/preupload/{revision}", preupload),
    route("POST", "/api/models/{repo}/lfs-files/duplicate", duplicate),
)
