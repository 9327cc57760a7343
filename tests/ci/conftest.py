"""The step of a workflow, in this process: a workspace, an environment, what came of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from hfconvert.ci.step import act
from hfconvert.console import Console
from tests.ci.test_files import read


@dataclass(frozen=True)
class Stepped:
    """How a step ended: exit code, outputs, summary, and what it said, line by line."""

    code: int
    outputs: dict[str, str]
    summary: str
    said: list[str]

    def commands(self, kind: str) -> list[str]:
        return [line for line in self.said if line.startswith(f"::{kind}")]


Step = Callable[..., Stepped]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a pickle of two tensors and a recipe for it; the working directory."""
    folder = tmp_path / "workspace"
    (folder / "source").mkdir(parents=True)
    torch.save({"w": torch.ones(2, 3), "b": torch.ones(3)}, folder / "source" / "weights.pt")
    text = "version: 1\nsource: {path: source}\noutput: {path: out}\n"
    (folder / "recipe.yaml").write_text(text)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def environment(workspace: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """What GitHub's runner gives a step, without inputs."""
    before = tempfile.tempdir
    temp = tmp_path / "temp"
    temp.mkdir()
    yield {
        "RUNNER_TEMP": str(temp),
        "GITHUB_WORKSPACE": str(workspace),
        "GITHUB_OUTPUT": str(tmp_path / "outputs"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_EVENT_NAME": "push",
    }
    tempfile.tempdir = before


@pytest.fixture
def step(environment: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Step:
    """Run a step with inputs, each as its variable: `recipe="a.yaml"`; other variables in capitals."""

    def run(now: Callable[[], float] = lambda: 0.0, **given: str) -> Stepped:
        for name, value in given.items():
            environment[name if name.isupper() else f"HFC_{name.upper()}"] = value
        for name in ("outputs", "summary"):
            (tmp_path / name).unlink(missing_ok=True)
        code = act(environment, Console(bars=False), now)
        out, err = capsys.readouterr()
        assert out == ""
        summary = tmp_path / "summary"
        outputs = read((tmp_path / "outputs").read_text())
        return Stepped(int(code), outputs, summary.read_text(), err.splitlines())

    return run
