"""Whose code a job runs: a stranger's gets no token, publishes nothing and runs no code of repositories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_OF_PULL_REQUESTS = ("pull_request", "workflow_run")  # and names that begin like the first
# Events that only people with rights here cause; without an event file nothing else is known of them.
_OWN = ("", "push", "schedule", "workflow_dispatch", "repository_dispatch", "release")


def stranger(environment: Mapping[str, str]) -> str:
    """Why the event of this job may bring code of somebody without rights here; empty where it cannot.

    Decided by what the event file holds: a pull request, or the run of a workflow, whose head is not in the
    repository itself. What cannot be known counts as a stranger's.
    """
    name = environment.get("GITHUB_EVENT_NAME", "")
    event = _event(environment.get("GITHUB_EVENT_PATH", ""))
    if event is None:
        return "" if name in _OWN else f"the event file of {name} cannot be read"
    if "pull_request" in event:
        request = _part(event, "pull_request")
        return _elsewhere(
            _part(request, "head", "repo"), _part(request, "base", "repo"), "pull request"
        )
    if "workflow_run" in event:
        head = _part(event, "workflow_run", "head_repository")
        return _elsewhere(head, _part(event, "repository"), "run")
    if "pull_request" in _part(event, "issue"):
        return "a comment on a pull request does not say where the code comes from"
    if name.startswith(_OF_PULL_REQUESTS):
        return f"the event file of {name} does not say where the code comes from"
    return ""


def _elsewhere(head: Mapping[str, Any], base: Mapping[str, Any], what: str) -> str:
    """Both repositories have to be named, and to be one."""
    if head.get("full_name") and head.get("full_name") == base.get("full_name"):
        return ""
    return f"the {what} comes from {head.get('full_name') or 'a fork that is gone'}"


def _event(name: str) -> Mapping[str, Any] | None:
    """What the file holds; nothing where none is named, None where it is no event."""
    try:
        event = json.loads(Path(name).read_bytes()) if name else {}
    except (OSError, ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _part(event: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    found: Any = event
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}
