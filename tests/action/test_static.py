"""What no linter finds in `action.yml`: names that do not fit, values in a shell, actions that move."""

from __future__ import annotations

import re
from typing import Any

import yaml

from hfconvert.ci.inputs import variable
from tests.action.harness import ROOT

TEXT = (ROOT / "action.yml").read_text()
ACTION: dict[str, Any] = yaml.safe_load(TEXT)
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
RUNS = [step for step in STEPS if "run" in step]
# What GitHub's runner sets for every step, and what a shell has.
GIVEN = re.compile(r"(GITHUB|RUNNER)_[A-Z_]+|PATH|HOME")
SCRIPT = (ROOT / ".ci" / "install-action").read_text()


def test_every_input_is_used_and_every_one_used_is_declared() -> None:
    assert set(re.findall(r"inputs\.([a-z-]+)", TEXT)) == ACTION["inputs"].keys()


def test_every_output_comes_from_a_step_that_is_there() -> None:
    used = {
        found[1]
        for output in ACTION["outputs"].values()
        for found in [
            re.fullmatch(r"\$\{\{ steps\.([a-z]+)\.outputs\.[a-z-]+ \}\}", output["value"])
        ]
        if found
    }
    assert used == {"hfconvert"}
    assert used <= {step.get("id") for step in STEPS}


def test_everything_is_described() -> None:
    described = [*ACTION["inputs"].values(), *ACTION["outputs"].values(), ACTION]
    assert all(one["description"] for one in described)
    assert ACTION["branding"] == {"icon": "refresh-cw", "color": "yellow"}


def test_no_value_reaches_a_shell_but_by_the_environment() -> None:
    assert RUNS
    assert [step["run"] for step in RUNS if "${{" in step["run"]] == []


def test_every_variable_that_is_read_is_given_to_that_step() -> None:
    for step in RUNS:
        read = set(re.findall(r"\$\{?([A-Za-z_]+)", step["run"]))
        made = set(re.findall(r"\b([a-z_]+)=", step["run"]))
        missing = [one for one in read - made - step["env"].keys() if not GIVEN.fullmatch(one)]
        assert missing == []


def test_the_script_that_installs_reads_what_is_given_and_no_token() -> None:
    (step,) = [step for step in RUNS if ".ci/install-action" in step["run"]]
    read = set(re.findall(r"\$\{?(HFC_[A-Z_]+)", SCRIPT))
    assert read == {"HFC_INSTALL", "HFC_PYTHON"}
    assert read <= step["env"].keys()
    (line,) = [line for line in SCRIPT.splitlines() if "TOKEN" in line]
    assert line.startswith("unset HFC_TOKEN HF_TOKEN ")


def test_nothing_but_torch_comes_from_another_index() -> None:
    """A name that both indexes have would be whoever's who registered it there."""
    assert "--extra-index-url" not in SCRIPT
    (line,) = [line for line in SCRIPT.splitlines() if "--index-url" in line]
    assert line.strip().endswith("--no-deps --index-url https://download.pytorch.org/whl/cpu torch")


def test_the_variables_are_those_that_the_program_reads() -> None:
    (step,) = RUNS
    names = {variable(name): name for name in ACTION["inputs"] if name != "python-version"}
    expected = {key: f"${{{{ inputs.{name} }}}}" for key, name in names.items()}
    assert {**expected, "HFC_PYTHON": "${{ steps.python.outputs.python-path }}"} == step["env"]


def test_every_action_is_pinned_to_a_commit_and_says_its_version() -> None:
    used = re.findall(r"^.*\buses:.*$", TEXT, flags=re.MULTILINE)
    assert used
    pinned = r"\s+(- )?uses: [\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*"
    assert [one for one in used if not re.fullmatch(pinned, one)] == []


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) < 100
