"""kill -9 at any request to the Hub: the next run ends in one pull request, nothing twice, nothing half."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hub.loopback.faults import Call
from tests.hub.loopback.server import RunningHub

ANY = "GET|HEAD|POST|PUT|DELETE"
Victim = Callable[..., int]


@pytest.fixture
def victim(
    hub: RunningHub, tmp_path: Path, process_env: dict[str, str], request: pytest.FixtureRequest
) -> Victim:
    """Run the command in a process that is killed when it makes the `nth` request to a path."""
    env = {**process_env, "HF_TOKEN": hub.token(), "PYTHONPATH": str(Path(__file__).parents[3])}
    path = tmp_path / "recipe.yaml"
    output = {"disk": getattr(request, "param", "normal"), "max_shard_size": "2KB"}
    document = {"version": 1, "source": {"repo": "owner/m"}, "publish": {}, "output": output}
    path.write_text(json.dumps({**document, "validate": {"architecture": "off"}}))
    command = [sys.executable, "-m", "hfconvert", "run", str(path), "--json"]

    def act(nth: int = 0, path: str = "") -> int:
        running: list[subprocess.Popen[bytes]] = []
        if nth:
            kill = Call(lambda _: os.kill(running[0].pid, signal.SIGKILL))
            hub.faults.add(ANY, path, kill, nth=nth)
        quiet = subprocess.DEVNULL
        running.append(subprocess.Popen(command, env=env, stdout=quiet, stderr=quiet))
        code = running[0].wait()
        hub.faults.clear()
        return code

    return act


def check_one(repo: Any) -> None:
    """One open pull request, complete, on the head, with one comment; others closed with a pointer."""
    opened = [one for one in repo.discussions if one.status == "open"]
    assert len(opened) == 1
    assert len(repo.discussions) == 1
    assert len(opened[0].comments) == 2
    commits = list(repo.history(repo.resolve(opened[0].ref)))
    assert commits[1].id == repo.head.id
    index = json.loads(commits[0].files["model.safetensors.index.json"].blob.read(0, 1 << 20))
    assert set(index["weight_map"].values()) <= commits[0].files.keys()


def kill_at(hub: RunningHub, repo: Any, victim: Victim, nth: int, path: str = "") -> bool:
    """Kill a run at a request and let another one end the work; whether the run came that far."""
    forget(hub, repo)
    code = victim(nth, path)
    assert len(repo.discussions) <= 1
    assert victim() == 0
    check_one(repo)
    return code == -signal.SIGKILL


def forget(hub: RunningHub, repo: Any) -> None:
    """Let the Hub be as if nothing had been published or sent."""
    repo.discussions.clear()
    for ref in [ref for ref in repo.refs if ref.startswith("refs/pr/")]:
        del repo.refs[ref]
    kept = {file.blob.sha256 for file in repo.head.files.values()}
    for sha256 in [one for one in hub.objects if one not in kept]:
        del hub.objects[sha256]


@pytest.mark.usefixtures("lfs")
@pytest.mark.parametrize(
    "path",
    ["/objects/batch", "/upload/", "/commit/", "/revision/refs", "/discussions/1$", "/comment$"],
    ids=("batch", "upload", "commit", "compared", "details", "comment"),
)
def test_killed_around_the_commit(hub: RunningHub, repo: Any, victim: Victim, path: str) -> None:
    """Before anything is sent, while it is, before and after the commit, before the words."""
    assert kill_at(hub, repo, victim, 1, path)


@pytest.mark.slow
@pytest.mark.usefixtures("lfs")
@pytest.mark.parametrize("victim", ["normal", "bounded"], indirect=True)
def test_killed_at_every_request(hub: RunningHub, repo: Any, victim: Victim) -> None:
    assert victim() == 0
    total = len(hub.log.records)
    killed = [kill_at(hub, repo, victim, nth) for nth in range(1, total + 1)]
    assert sum(killed) > 20
