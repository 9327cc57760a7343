"""The `architecture` check within a run: before anything is written, and only where it can say something."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from hfconvert.cli import main

Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A pickled llama with its configuration."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=32,
        architectures=["LlamaForCausalLM"],
    )
    root = tmp_path / "source"
    root.mkdir()
    torch.save(LlamaForCausalLM(config).state_dict(), root / "pytorch_model.bin")
    (root / "config.json").write_text(json.dumps(config.to_dict()))
    return root


@pytest.fixture
def run(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    def convert(*options: str, **recipe: Any) -> tuple[int, dict[str, Any]]:
        path = tmp_path / "recipe.yaml"
        path.write_text(json.dumps({"version": 1, "source": {"path": str(source)}, **recipe}))
        out, output = io.StringIO(), tmp_path / "out"
        argv = ["hfconvert", "run", str(path), "--output", str(output), "--json", *options]
        monkeypatch.setattr(sys, "argv", argv)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = main()
        assert output.exists() == (code == 0)
        assert [one.name for one in tmp_path.glob(".out*")] == []
        return code, json.loads(out.getvalue())

    return convert


def architecture(report: dict[str, Any]) -> dict[str, Any]:
    (found,) = (one for one in report["checks"] if one["name"] == "architecture")
    assert isinstance(found, dict)
    return found


def test_a_fitting_result_passes_and_the_versions_are_said(run: Run) -> None:
    code, report = run()
    assert code == 0
    assert architecture(report)["status"] == "pass"
    assert architecture(report)["detail"] == "LlamaForCausalLM"
    assert [one["name"] for one in report["checks"]][-2:] == ["architecture", "logits"]
    assert report["versions"]["torch"] == torch.__version__


def test_names_of_no_class_stop_the_run_before_it_begins(run: Run) -> None:
    code, report = run(key_map=[{"add_prefix": "net."}])
    assert code == 1
    assert report["status"] == "failed"
    assert report["outputs"] == []
    assert [one["name"] for one in report["checks"]] == ["architecture"]
    assert "without the prefix `net.` there would be 21 of 21" in architecture(report)["detail"]
    (error,) = (one for one in report["findings"] if one["level"] == "error")
    assert "validate.architecture: off converts all the same" in error["hint"]


def test_what_the_source_lacks_is_missing(run: Run, source: Path) -> None:
    state = torch.load(source / "pytorch_model.bin", weights_only=True)
    lost = {name: one for name, one in state.items() if not name.endswith("q_proj.weight")}
    torch.save(lost, source / "pytorch_model.bin")
    code, report = run()
    assert code == 1
    names = "`model.layers.{0..1}.self_attn.q_proj.weight`"
    assert f"2 missing: {names}" in architecture(report)["detail"]


def test_what_the_recipe_drops_is_its_decision_and_a_warning(run: Run) -> None:
    code, report = run(key_map=[{"drop": ["*.q_proj.weight"]}])
    assert code == 0
    assert architecture(report)["status"] == "pass"
    (said,) = (one for one in report["findings"] if one["check"] == "architecture")
    assert said["level"] == "warning"
    assert said["message"] == (
        "LlamaForCausalLM wants 2 tensors that the recipe drops: "
        "`model.layers.{0..1}.self_attn.q_proj.weight`"
    )


def test_wrappers_taken_off_are_no_change_of_names(run: Run, source: Path) -> None:
    """A base model's names load into the class; a recipe that only unwraps them changes nothing in that."""
    state = torch.load(source / "pytorch_model.bin", weights_only=True)
    wrapped = {f"module.{name.removeprefix('model.')}": one for name, one in state.items()}
    torch.save(wrapped, source / "pytorch_model.bin")
    code, report = run(key_map=[{"strip_prefix": ["module."]}])
    assert code == 0, architecture(report)
    assert any("another form when it loads" in one["message"] for one in report["findings"])


def test_off_is_skipped_with_its_reason(run: Run) -> None:
    code, report = run(key_map=[{"add_prefix": "net."}], validate={"architecture": "off"})
    assert code == 0
    assert architecture(report)["status"] == "skipped"
    assert architecture(report)["detail"] == "validate.architecture is off"


def test_a_class_of_nobody_fails_nothing(run: Run, source: Path) -> None:
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "architectures": ["Nobody"]}))
    code, report = run()
    assert code == 0
    assert architecture(report)["status"] == "skipped"


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    """A folder whose only tensor is a head under another name."""
    from safetensors.torch import save_file

    root = tmp_path / "reference"
    root.mkdir()
    save_file({"net.lm_head.weight": torch.zeros(32, 16)}, root / "model.safetensors")
    return root


def test_a_reference_decides_in_place_of_the_class(run: Run, reference: Path) -> None:
    keep = [{"drop": ["model.*"]}, {"add_prefix": "net."}]
    code, report = run(key_map=keep, validate={"reference": str(reference)})
    assert code == 0
    assert architecture(report)["detail"] == f"the reference {reference}"
    (logits,) = (one for one in report["checks"] if one["name"] == "logits")
    assert (
        logits["status"] == "skipped"
    )  # a folder without config.json would be the class's default size
    assert "has no config.json" in logits["detail"]


def test_names_that_a_reference_lacks_fail(run: Run, reference: Path) -> None:
    code, report = run(validate={"reference": str(reference)})
    assert code == 1
    assert "1 missing: `net.lm_head.weight`" in architecture(report)["detail"]


def test_a_reference_that_is_not_there_is_exit_2(run: Run) -> None:
    code, report = run(validate={"reference": "./nowhere"})
    assert code == 2
    assert "nowhere cannot be read" in report["findings"][0]["message"]
