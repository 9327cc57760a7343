"""Who asks for which repository, and whether that is allowed: the refusals that the real Hub gives."""

from __future__ import annotations

from tests.hub.loopback.accounts import Right, Token
from tests.hub.loopback.messages import RefusedError, Request
from tests.hub.loopback.repositories import Repo
from tests.hub.loopback.state import Hub

NO_ACCOUNT = "Invalid username or password."
FORBIDDEN = {
    "read": "Authorization error.",
    "write": "pass `create_pr=1` as a query parameter to create a Pull Request",
    "discuss": "Authorization error.",
}


def identify(hub: Hub, request: Request) -> Token | None:
    """The token of the request, or None for a stranger. Refused (401) where the Hub does not know it."""
    if "authorization" not in request.headers:
        return None
    token = hub.tokens.get(request.token or "")
    if token is None:
        raise RefusedError(401, "Invalid credentials in Authorization header")
    return token


def require_account(hub: Hub, request: Request) -> Token:
    """The token of the request. Refused (401) for a stranger."""
    token = identify(hub, request)
    if token is None:
        raise RefusedError(401, NO_ACCOUNT)
    return token


def open_repo(hub: Hub, request: Request, name: str, right: Right = "read") -> Repo:
    """The repository, for somebody with that right.

    One that may not be read looks as if it were not there: 404, or 401 to a stranger, both `RepoNotFound`.
    One that has moved is answered with a redirect to where it is now.
    """
    if name in hub.moved:
        place = request.path.replace(name, hub.moved[name], 1)
        raise RefusedError(307, "moved", "", {"Location": place})
    token = identify(hub, request)
    repo = hub.repos.get(name)
    if repo is None or not _may_read(repo, token):
        raise RefusedError(404 if token else 401, "Repository not found", "RepoNotFound")
    if repo.disabled:
        raise RefusedError(403, "Access to this resource is disabled.")
    if right != "read":
        rights = require_account(hub, request).rights(repo)
        if right not in rights:
            raise RefusedError(403, FORBIDDEN[right])
    return repo


def check_gate(hub: Hub, request: Request, repo: Repo) -> None:
    """Refused (`GatedRepo`) for who has not been let in; the files that describe the model stay open."""
    token = identify(hub, request)
    if not repo.gated or (token and _let_in(repo, token)):
        return
    start = f"Access to model {repo.id} is restricted"
    if token is None:
        wish = "You must have access to it and be authenticated to access it. Please log in."
        raise RefusedError(401, f"{start}. {wish}", "GatedRepo")
    wish = f"Visit {hub.endpoint}/{repo.id} to ask for access."
    raise RefusedError(403, f"{start} and you are not in the authorized list. {wish}", "GatedRepo")


def check_pull_requests(repo: Repo) -> None:
    """Refused (403) where the owner has turned discussions and pull requests off."""
    if not repo.pull_requests:
        raise RefusedError(403, "Discussions are disabled for this repo")


def visible(hub: Hub, request: Request) -> list[Repo]:
    """The repositories that whoever asks may see."""
    token = identify(hub, request)
    return [repo for repo in hub.repos.values() if _may_read(repo, token)]


def _may_read(repo: Repo, token: Token | None) -> bool:
    return "read" in token.rights(repo) if token else not repo.private


def _let_in(repo: Repo, token: Token) -> bool:
    return token.user.name in repo.granted or "write" in token.user.rights(repo)
