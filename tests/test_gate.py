"""README, gate and workflows say the same: one of them cannot change alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
TESTS = "python -m pytest -n 2"
WORKFLOWS = sorted(
    path
    for place in (".github/workflows", "configs/workflows")
    for path in ROOT.glob(f"{place}/*.yml")
)


def text(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.parametrize("name", ["README.md", ".ci/run", ".github/workflows/ci.yml"])
def test_one_command_runs_the_tests(name: str) -> None:
    assert TESTS in text(name)


@pytest.mark.parametrize("name", ["README.md", ".ci/venv"])
def test_the_tests_are_installed_with_the_pinned_torch(name: str) -> None:
    assert re.search(r"pip\"? install .*-c \.ci/constraints\.txt .*\[test", text(name))
    assert "torch==2.13.0" in text(".ci/constraints.txt").splitlines()


@pytest.mark.parametrize(
    ("workflow", "script"), [("ci.yml", ".ci/run"), ("nightly.yml", ".ci/slow")]
)
def test_the_workflows_call_the_scripts(workflow: str, script: str) -> None:
    assert script in commands(ROOT / ".github/workflows" / workflow)
    assert (ROOT / script).stat().st_mode & 0o111 == 0o111


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.name))
def test_every_action_is_pinned_to_a_commit(path: Path) -> None:
    used = re.findall(
        r"^\s*-?\s*uses: (?!\./|OWNER/hfconvert@v1$)(.*)$", path.read_text(), flags=re.MULTILINE
    )
    assert used
    assert [use for use in used if not re.fullmatch(r"\S+@[0-9a-f]{40} # v\d\S*", use)] == []


def test_ci_covers_the_oldest_and_the_newest_python() -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", text("pyproject.toml"))
    assert f'requires-python = ">={claimed[0]}"' in text("pyproject.toml")
    tested: dict[str, Any] = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"]["tests"]
    pythons = tested["strategy"]["matrix"]["python"]
    assert {claimed[0], claimed[-1]} <= {*pythons} <= {*claimed}


def commands(path: Path) -> list[str]:
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]
