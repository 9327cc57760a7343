"""The smoke test against the live Hub does what it says, on the loopback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hub import live
from tests.hub.loopback.server import RunningHub


def test_two_runs_agree(hub: RunningHub, repo: Any, process_env: dict[str, str]) -> None:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "tests.hub.live", "owner/m"]
    env = {**process_env, "HF_TOKEN": hub.token(), "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "as it should be"
    assert [one.status for one in repo.discussions] == ["open"]


def test_it_asks_for_a_repository(capsys: pytest.CaptureFixture[str]) -> None:
    assert live.main([]) == 2
    assert "REPO is a repository of your own" in capsys.readouterr().err
