"""Who am I, may I, and the small questions that the client asks unasked."""

from __future__ import annotations

from tests.hub.loopback.access import check_gate, open_repo, require_account
from tests.hub.loopback.messages import Answer, Request
from tests.hub.loopback.routes.table import route
from tests.hub.loopback.state import Hub


def whoami(hub: Hub, request: Request) -> Answer:
    """The account behind the token, and what the token is for."""
    return Answer.of(require_account(hub, request).whoami())


def auth_check(hub: Hub, request: Request, repo: str) -> Answer:
    """Whether the files of a repository may be read."""
    check_gate(hub, request, open_repo(hub, request, repo))
    return Answer.of({})


def auth_check_write(hub: Hub, request: Request, repo: str) -> Answer:
    """Whether a repository may be written to."""
    open_repo(hub, request, repo, "write")
    return Answer.of({})


def exchange(hub: Hub, request: Request) -> Answer:
    """A token of an hour for the one repository that trusts this identity (RFC 8693)."""
    wish = request.json()
    resource = str(wish.get("resource"))
    if hub.publishers.get(resource) != wish.get("subject_token"):
        said = {"error": "invalid_grant", "error_description": "No trusted publisher matches."}
        return Answer.of(said, 400)
    scoped = {resource: ("repo.write", "discussion.write")}
    token = hub.token(resource.partition("/")[0], "fineGrained", scoped=scoped)
    return Answer.of({"access_token": token, "token_type": "bearer", "expires_in": 3600})


def validate_yaml(hub: Hub, request: Request) -> Answer:
    """The metadata of a model card is as it should be; the client asks before each commit of a README."""
    request.json()
    return Answer.of({"errors": [], "warnings": []})


ROUTES = (
    route("GET", "/api/whoami-v2", whoami),
    route("POST", "/api/validate-yaml", validate_yaml),
    route("POST", "/oauth/token", exchange),
    route("GET", "/api/models/{repo}/auth-check", auth_check),
    route("GET", "/api/models/{repo}/auth-check/write", auth_check_write),
)
