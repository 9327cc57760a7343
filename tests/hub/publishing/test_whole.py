"""The whole job: once, and once more."""

from __future__ import annotations

from typing import Any

from tests.hub.loopback.server import RunningHub

TITLE = "Adding `safetensors` variant of this model"


def test_one_pull_request_and_the_second_run_finds_it(
    hub: RunningHub, repo: Any, run: Any, transfer: str, home: Any
) -> None:
    head = repo.head.id
    done = run()
    assert (done.code, done.status) == (0, "converted"), done.said
    print(repo.discussions[0].events[0].data["latest"]["raw"])
    print(repo.discussions[0].comments[1].data["latest"]["raw"])
    [opened] = repo.discussions
    assert opened.title == TITLE
    again = run()
    assert (again.code, again.status) == (0, "up-to-date")
    assert len(repo.discussions) == 1
