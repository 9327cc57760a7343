"""Trusted Publishers: a workflow that signs in as itself, to one repository, without a stored token.

huggingface_hub exchanges the identity that GitHub gives a job for a token of the one repository that
HF_OIDC_RESOURCE names, and that token wins over every other. So it is kept to what is published; sources are
read as without it. (https://huggingface.co/docs/hub/trusted-publishers)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from huggingface_hub import errors, get_token

from hfconvert.errors import Problem, recipe_problem
from hfconvert.hub.about import About, hub_problem
from hfconvert.hub.secrets import clean

RESOURCE = "HF_OIDC_RESOURCE"
EXCHANGE = "/oauth/token"  # where a token is given for an identity
# Raised where there is no identity to exchange; none before huggingface_hub 1.19, which brought all this.
OIDC_ERRORS: tuple[type[Exception], ...] = tuple(
    getattr(errors, name) for name in ("OIDCError",) if hasattr(errors, name)
)


def publishes_to() -> str:
    """The repository that this environment is to be a publisher of; empty where it is none."""
    return os.environ.get(RESOURCE, "")


def stored_token() -> str | None:
    """The token of HF_TOKEN or of `hf auth login`, never that of a publisher."""
    with _set_aside():
        return get_token()


def unfit(repo: str, about: About) -> Iterator[Problem]:
    """Why results cannot go to the repository as from a publisher."""
    if not OIDC_ERRORS:
        yield recipe_problem(
            "this huggingface_hub knows no Trusted Publishers",
            why="they came with 1.19, and another package holds it at an older version",
            do="install huggingface_hub>=1.19, or give a token and leave oidc-resource out",
            subject=RESOURCE,
        )
    if repo != publishes_to():
        yield hub_problem(
            about,
            f"this workflow signs in as a publisher of {publishes_to()}, and of nothing else",
            why=f"{RESOURCE} (oidc-resource) names that one, and a publisher's token is for one repository",
            do="name the same repository in both, or give a token in its place",
        )


def no_identity(cause: Exception, about: About) -> Problem:
    """GitHub gives the job nothing that could be exchanged."""
    return hub_problem(
        about,
        f"this job has no identity that the Hub could know: {clean(str(cause))}",
        why="a job gets one only with the permission for it, and one of a fork's pull request never does",
        do="write `permissions: {id-token: write}` for the job, or give a token",
    )


def not_trusted(status: int, body: Any, about: About) -> Problem:
    """The Hub gives no token for this identity: what it says of that is the code of OAuth."""
    told = body if isinstance(body, dict) else {}
    said = clean(": ".join(str(told[key]) for key in ("error", "error_description") if key in told))
    return hub_problem(
        about,
        f"the Hub gives this workflow no token for {publishes_to()} ({status}{f', {said}' if said else ''})",
        why="it has no Trusted Publisher with exactly this GitHub repository, branch and workflow; "
        "or there is no such repository: a publisher cannot make one",
        do=f"make the repository, then add the publisher in its settings: {about.page}/settings",
    )


@contextmanager
def _set_aside() -> Iterator[None]:
    """Without the wish to be a publisher, which goes before every other token."""
    wish = os.environ.pop(RESOURCE, None)
    try:
        yield
    finally:
        if wish is not None:
            os.environ[RESOURCE] = wish
