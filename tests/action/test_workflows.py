"""Workflows that stand in this repository, run as they are: those to copy, and the job of `ci.yml`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from tests.action.harness import ROOT, Asked, Ran, run_act, small_action
from tests.written_files import content_of

README = (ROOT / "README.md").read_text()
COPIED = "OWNER/hfconvert@v1"
UPLOAD = "actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a"
STATE = {"a.weight": torch.ones(4, 4), "b": torch.ones(2)}
RECIPE = "version: 1\nsource: {path: SOURCE}\noutput: {path: ./out}\n"


def installed(folder: Path) -> Path:
    """The action, with the hfconvert of these tests in place of one that is installed."""
    action = small_action(folder) / "action.yml"
    text = action.read_text()
    assert text.count("default: action\n") == 1
    action.write_text(text.replace("default: action\n", "default: none\n"))
    return folder


def run(
    folder: Path, workflow: str, files: Mapping[str, Any], event: str = "push", **more: Any
) -> Ran:
    contents = {name: content_of(name, content) for name, content in files.items()}
    stubs = {
        COPIED: installed(folder / "installed"),
        UPLOAD: ROOT / "tests/action/stubs/upload-artifact",
    }
    return run_act(
        Asked(workflow=workflow, files=contents, event=event, stubs=stubs, **more), folder
    )


def example(name: str) -> str:
    return (ROOT / "configs" / "workflows" / name).read_text()


def recipe(source: str, **more: str) -> bytes:
    lines = "".join(f"{key}: {value}\n" for key, value in more.items())
    return (RECIPE.replace("SOURCE", source) + lines).encode()


def test_a_pushed_recipe_is_converted(tmp_path: Path) -> None:
    files = {
        "weights/pytorch_model.bin": STATE,
        "recipes/one.yaml": recipe("../weights"),
        "recipes/two.yaml": recipe("../weights", dtype="bfloat16").replace(b"out}", b"two}"),
    }
    ran = run(tmp_path, example("convert.yml"), files, secrets={"HF_TOKEN": "hf_secret"})

    assert ran.result("convert") == "success", ran.text
    outputs = ran.outputs("convert", "2")
    assert (outputs["status"], outputs["verified"]) == ("converted", "true")
    summary = ran.summary("convert", "2")
    assert "recipes/one.yaml" in summary
    assert "recipes/two.yaml" in summary
    assert "hf_secret" not in ran.text


def test_the_workflow_of_the_readme_converts_what_was_pushed(tmp_path: Path) -> None:
    workflow = README.partition("## As a GitHub Action")[2].split("```yaml\n")[1].split("```")[0]
    files = {"weights/pytorch_model.bin": STATE, "recipe.yaml": recipe("./weights")}
    ran = run(tmp_path, workflow, files)

    assert len(workflow.splitlines()) <= 10
    assert ran.result("convert") == "success", ran.text
    assert ran.outputs("convert", "1")["verified"] == "true"


def test_a_pull_request_from_a_fork_gets_its_proof_and_publishes_nothing(tmp_path: Path) -> None:
    fork, base = {"full_name": "stranger/fork"}, {"full_name": "org/repository"}
    payload = {"pull_request": {"head": {"repo": fork}, "base": {"repo": base}}}
    files = {
        "weights/pytorch_model.bin": STATE,
        "recipe.yaml": recipe("./weights", publish="{repo: org/model}"),
    }
    ran = run(tmp_path, example("proof.yml"), files, "pull_request", payload=payload)

    assert ran.result("prove") == "success", ran.text
    assert ran.outputs("prove", "hfconvert")["pr-url"] == ""
    assert "| tensors | passed |" in ran.summary("prove", "hfconvert")
    assert "proof holds converted" in ran.log("prove", "2")


@pytest.mark.parametrize(
    ("files", "result", "said"),
    [
        ({"model.safetensors": STATE, "pytorch_model.bin": STATE}, "success", None),
        ({"pytorch_model.bin": STATE}, "failure", "weights are published as pickles only"),
    ],
    ids=["proved", "pickles only"],
)
def test_the_gate_passes_what_is_proved_and_fails_pickles(
    tmp_path: Path, files: Mapping[str, Any], result: str, said: str | None
) -> None:
    ran = run(tmp_path, example("gate.yml"), files)

    assert ran.result("gate") == result, ran.text
    errors = [one.message for one in ran.said("gate", "1") if one.kind == "error"]
    assert len(errors) == (said is not None)
    assert all(said is not None and said in error for error in errors)


@pytest.mark.slow  # the class of the quickstart's model is looked at, by transformers
def test_the_job_of_ci_that_uses_the_action_of_this_repository(tmp_path: Path) -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    document = yaml.safe_load(text)
    document["on"] = document.pop(True)  # YAML 1.1 reads the key `on` as a truth value
    document["jobs"] = {"action": document["jobs"]["action"]}
    action = installed(tmp_path / "here")
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for root, part in ((ROOT, "configs"), (action, "."))
        for path in sorted((root / part).rglob("*"))
        if path.is_file()
    }
    ran = run(tmp_path, yaml.safe_dump(document), files)

    assert ran.result("action") == "success", ran.text
    assert ran.outputs("action", "convert")["status"] == "converted"
    assert ran.result("action", "pickles") == "failure"
