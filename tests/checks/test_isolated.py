"""Questions to models are answered by a process of their own where torch is not loaded yet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hfconvert.checks import isolated
from hfconvert.checks.answers import answer
from hfconvert.checks.isolated import HarnessError, ask, missing_libraries

ROOT = Path(__file__).resolve().parents[2]
REQUEST: dict[str, Any] = {
    "config": {"architectures": ["NobodyKnowsThis"]},
    "folder": ".",
    "custom": False,
    "tensors": {},
}


def test_a_fresh_process_asks_another_and_stays_without_torch(tmp_path: Path) -> None:
    """The working directory, which may hold anything, is not where modules come from."""
    (tmp_path / "torch.py").write_text("raise SystemExit('imported from the working directory')")
    script = (
        f"import sys, json; sys.path.insert(0, {str(ROOT)!r}); sys.path.remove('')\n"
        "from hfconvert.checks.isolated import ask\n"
        f"found = ask('architecture', json.loads({json.dumps(REQUEST)!r}))\n"
        "print(found['skipped'], 'torch' in sys.modules)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip().endswith("has no class NobodyKnowsThis False")


def test_here_it_is_answered_on_the_spot() -> None:
    import torch  # noqa: F401 - loaded is what counts

    assert "has no class" in ask("architecture", REQUEST)["skipped"]


def test_what_libraries_raise_is_a_fault_of_the_harness() -> None:
    broken = {**REQUEST, "config": {"architectures": [7]}}
    assert answer("architecture", broken)["harness"].startswith("TypeError: ")
    with pytest.raises(HarnessError, match="TypeError"):
        ask("architecture", broken)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by signal 9; it may"),
        ("import sys; sys.exit('no luck')", "ended with code 1: no luck"),
        ("pass", "ended with code 0: "),
    ],
)
def test_a_process_that_ends_without_an_answer(
    monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    run = subprocess.run

    def other(command: list[str], **options: Any) -> Any:
        return run([command[0], "-c", script], **options)

    monkeypatch.setattr(subprocess, "run", other)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(HarnessError, match=said):
        ask("architecture", REQUEST)


def test_what_is_not_installed_is_known_without_importing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert missing_libraries() == ()
    monkeypatch.setattr(isolated, "NEEDED", ("json", "no_such_library"))
    assert missing_libraries() == ("no_such_library",)


def test_no_token_is_in_the_environment_of_the_process_that_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secrets = (
        "HF_TOKEN",
        "GITHUB_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_URL",
        "HF_OIDC_RESOURCE",
        "AWS_SECRET_KEY",
    )
    kept = ("TOKENIZERS_PARALLELISM", "HF_HOME", "KEYBOARD")
    for name in (*secrets, *kept):
        monkeypatch.setenv(name, "x")
    run = subprocess.run

    def other(command: list[str], **options: Any) -> Any:
        told = "import json, os; print(json.dumps(dict(os.environ)))"
        return run([command[0], "-c", told], **options)

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(subprocess, "run", other)
    environment = ask("architecture", REQUEST)
    assert {name for name in (*secrets, *kept) if name in environment} == set(kept)
