"""Tokens for the Xet store: who has one talks to the store itself, through hf_xet."""

from __future__ import annotations

import time

from tests.hub.loopback.access import check_gate, check_pull_requests, open_repo
from tests.hub.loopback.messages import Answer, Request
from tests.hub.loopback.routes.table import route
from tests.hub.loopback.state import Hub

VALID_SECONDS = 3600


def read_token(hub: Hub, request: Request, repo: str, revision: str) -> Answer:
    """Leave to read from the store."""
    check_gate(hub, request, open_repo(hub, request, repo))
    return _connection(hub, revision)


def write_token(hub: Hub, request: Request, repo: str, revision: str) -> Answer:
    """Leave to write to the store: for a branch, or (`create_pr`) for a pull request yet to be opened."""
    opening = request.flag("create_pr") or revision.startswith("refs/pr/")
    found = open_repo(hub, request, repo, "discuss" if opening else "write")
    if opening:
        check_pull_requests(found)
    hub.check_storage(found.namespace, 0)
    return _connection(hub, revision)


def read_token_url(hub: Hub, repo: str, commit: str) -> str:
    """Where a reading token for a commit is to be had."""
    return f"{hub.endpoint}/api/models/{repo}/xet-read-token/{commit}"


def _connection(hub: Hub, revision: str) -> Answer:
    expires, token = int(time.time()) + VALID_SECONDS, f"xet-{revision}"
    headers = {
        "X-Xet-Cas-Url": hub.xet_store.url,
        "X-Xet-Access-Token": token,
        "X-Xet-Token-Expiration": str(expires),
    }
    body = {"casUrl": hub.xet_store.url, "accessToken": token, "exp": expires}
    return Answer.of(body, headers=headers)


ROUTES = (
    route("GET", "/api/models/{repo}/xet-read-token/{revision}", read_token),
    route("GET", "/api/models/{repo}/xet-write-token/{revision}", write_token),
)
