"""Make the repository that takes a result, where there is none yet: never for work on an existing one."""

from __future__ import annotations

from dataclasses import replace

from huggingface_hub.errors import HfHubHTTPError

from hfconvert.hub.client import raise_told
from hfconvert.hub.failures import FAILURES, find_cause
from hfconvert.hub.source import pin
from hfconvert.hub.target import MAIN, Target


def ensure(target: Target) -> Target:
    """The target, with its repository made where it is missing. UserError (exit 4) where it may not be."""
    if target.head is not None:
        return target
    client, repo = target.client, target.repo
    about = client.about(repo, "create")
    try:
        client.api.create_repo(repo, private=target.private)
    except FAILURES as error:
        # An answer that was lost, or another run that was quicker: it is there then.
        cause = find_cause(error)
        known = isinstance(cause, HfHubHTTPError) and cause.response.status_code in (401, 403)
        if known or not client.ask(about, lambda: client.api.repo_exists(repo)):
            raise_told(error, about)
    head = pin(client, repo, MAIN)
    return replace(target, head=head, repo=str(head.facts.id))
