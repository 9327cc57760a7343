"""Whose code a job runs, by event files of the form that GitHub writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hfconvert.ci.trust import stranger

OWN = {"full_name": "owner/m", "fork": False}
FORK = {"full_name": "eve/m", "fork": True}


def pull(head: Any, base: Any = OWN) -> dict[str, Any]:
    return {"action": "opened", "pull_request": {"head": {"repo": head}, "base": {"repo": base}}}


def run_of(head: Any, repository: Any = OWN) -> dict[str, Any]:
    return {"workflow_run": {"head_repository": head}, "repository": repository}


def judge(folder: Path, name: str, event: Any) -> str:
    path = folder / "event.json"
    path.write_text(event if isinstance(event, str) else json.dumps(event))
    return stranger({"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path)})


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("push", {"ref": "refs/heads/main", "repository": OWN}),
        ("push", {"ref": "refs/heads/main", "repository": FORK}),  # in the fork itself: its own
        ("schedule", {"schedule": "17 3 * * *"}),
        ("workflow_dispatch", {"inputs": {"pull_request": "1"}, "repository": OWN}),
        ("issue_comment", {"issue": {"number": 1}, "comment": {"body": "pull_request"}}),
        ("pull_request", pull(OWN)),
        ("pull_request_target", pull(OWN)),
        ("workflow_run", run_of(OWN)),
        ("", {}),
    ],
)
def test_its_own(tmp_path: Path, name: str, event: Any) -> None:
    assert judge(tmp_path, name, event) == ""


@pytest.mark.parametrize(
    ("name", "event", "why"),
    [
        ("pull_request", pull(FORK), "the pull request comes from eve/m"),
        ("pull_request_target", pull(FORK), "the pull request comes from eve/m"),
        ("pull_request_review", pull(FORK), "the pull request comes from eve/m"),
        ("push", pull(FORK), "the pull request comes from eve/m"),
        ("pull_request", pull(None), "the pull request comes from a fork that is gone"),
        ("pull_request", pull({}, {}), "the pull request comes from a fork that is gone"),
        ("pull_request", {"pull_request": None}, "the pull request comes from a fork that is gone"),
        ("pull_request", pull(OWN, None), "the pull request comes from owner/m"),
        ("workflow_run", run_of(FORK), "the run comes from eve/m"),
        ("workflow_run", run_of(None), "the run comes from a fork that is gone"),
        (
            "issue_comment",
            {"issue": {"pull_request": {"url": "x"}}},
            "a comment on a pull request does not say where the code comes from",
        ),
        *(
            (name, "{}", f"the event file of {name} does not say where the code comes from")
            for name in ("pull_request", "pull_request_target", "workflow_run")
        ),
        *(
            (name, event, f"the event file of {name} cannot be read")
            for name in ("pull_request", "pull_request_target", "workflow_run", "issue_comment")
            for event in ("", "[]", "no json", "[" * 100_000)
        ),
    ],
)
def test_a_strangers_or_not_known(tmp_path: Path, name: str, event: Any, why: str) -> None:
    assert judge(tmp_path, name, event) == why


@pytest.mark.parametrize("path", ["", "/nowhere/event.json"])
def test_an_event_file_that_is_not_there(path: str) -> None:
    assert stranger({"GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": path}) == ""
    assert stranger({"GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": path}) != ""


def test_a_comment_without_its_event_is_a_strangers() -> None:
    event = {"GITHUB_EVENT_NAME": "issue_comment", "GITHUB_EVENT_PATH": "/nowhere/event.json"}
    assert stranger(event) == "the event file of issue_comment cannot be read"
