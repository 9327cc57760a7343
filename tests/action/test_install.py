"""`install: action`, and a version: the environment that the action makes from a checkout."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.action.harness import ROOT, Asked, Ran, run_act, run_once, whole_action
from tests.written_files import content_of

WORKFLOW = """\
on: push
permissions: {}
jobs:
  action:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: convert
        uses: owner/hfconvert@v1
        with: {recipe: recipe.yaml, token: hf_notforpackages}
      - id: again
        uses: owner/hfconvert@v1
        with: {recipe: recipe.yaml}
      - id: look
        run: |
          "$RUNNER_TEMP/hfconvert-venv/bin/python" -I -c '
          import importlib.util, hfconvert
          print("torch", importlib.util.find_spec("torch"))
          print("from", hfconvert.__file__)'
          ls
  models:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: convert
        uses: owner/hfconvert@v1
        with: {recipe: recipe.yaml, set: dtype=bfloat16}
      - id: look
        run: |
          "$RUNNER_TEMP/hfconvert-venv/bin/pip" list
  absent:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: convert
        uses: owner/hfconvert@v1
        with: {recipe: recipe.yaml, install: "0.0.0-$(touch PWNED)"}
      - id: look
        if: always()
        run: test ! -e PWNED && echo "status ${{ steps.convert.outputs.status }}"
"""
# Modules of the workspace that a careless call of Python would import in place of the real ones.
TRAPS = {f"{name}.py": "open('TRAPPED', 'w')\n" for name in ("pip", "venv", "hfconvert", "numpy")}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The one run; pip may reach the network, by the settings of this environment."""
    import torch

    files: dict[str, str | bytes] = {
        "source/w.pt": content_of("w.pt", {"w": torch.ones(2, 2)}),
        "recipe.yaml": "version: 1\nsource: {path: source}\noutput: {path: out}\n",
        **TRAPS,
    }
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}

    def run(folder: Path) -> Ran:
        action = whole_action(folder / "action")
        return run_act(Asked(workflow=WORKFLOW, files=files, env=pip, action=action), folder, ())

    return run_once(run, "install", tmp_path_factory)


# In place of Python: makes programs that tell what their environment holds.
PYTHON = """\
#!/bin/sh
mkdir -p "$4/bin"
for name in pip hfconvert; do
  printf '#!/bin/sh\\nenv >>"%s/seen"\\n' "$4" >"$4/bin/$name"
  chmod +x "$4/bin/$name"
done
env >"$4/seen"
"""
TOKENS = (
    *("HFC_TOKEN", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
    *("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL"),
)


def test_no_package_that_is_built_finds_a_token(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    tokens = dict.fromkeys(TOKENS, "hf_secret")
    subprocess.run(
        [ROOT / ".ci" / "install-action", tmp_path / "venv"],
        env={**os.environ, **tokens, "HFC_PYTHON": str(python), "HFC_INSTALL": "1.2.3"},
        check=True,
    )
    seen = (tmp_path / "venv" / "seen").read_text()
    assert seen.count("HFC_INSTALL=1.2.3\n") == 3
    assert "hf_secret" not in seen


@pytest.mark.slow
def test_the_action_installs_itself_and_no_torch(ran: Ran) -> None:
    assert ran.result("action") == "success", ran.text
    assert ran.outputs("action", "convert")["status"] == "converted"
    assert ran.outputs("action", "again")["status"] == "up-to-date"
    said = ran.log("action", "look")
    assert "torch None" in said
    assert "hfconvert-venv/lib" in said
    assert "TRAPPED" not in said


@pytest.mark.slow
def test_a_recipe_that_needs_models_brings_torch_without_cuda(ran: Ran) -> None:
    assert ran.result("models") == "success", ran.text
    assert ran.outputs("models", "convert")["status"] == "converted"
    packages = dict(line.split()[:2] for line in ran.log("models", "look").splitlines()[2:] if line)
    assert packages["torch"].endswith("+cpu")
    assert {"transformers", "peft", "accelerate"} <= packages.keys()
    assert [name for name in packages if name.startswith(("nvidia", "cuda"))] == []


@pytest.mark.slow
def test_a_version_that_is_not_there_fails_and_says_so(ran: Ran) -> None:
    assert ran.result("absent", "convert") == "failure"
    assert "status failed" in ran.log("absent", "look")
    (said,) = ran.said("absent", "convert")
    assert "hfconvert could not be installed" in said.message
