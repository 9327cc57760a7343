"""`logits` and `effect` within a run: only where values change, against what transformers reads."""

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

from hfconvert.cli import main

Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A pickled llama with its configuration."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=32,
        architectures=["LlamaForCausalLM"],
        dtype="float32",
    )
    root = tmp_path / "source"
    root.mkdir()
    torch.save(LlamaForCausalLM(config).state_dict(), root / "pytorch_model.bin")
    (root / "config.json").write_text(json.dumps(config.to_dict()))
    return root


@pytest.fixture
def run(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    def convert(**recipe: Any) -> tuple[int, dict[str, Any]]:
        path, output = tmp_path / "recipe.yaml", tmp_path / "out"
        path.write_text(json.dumps({"version": 1, "source": {"path": str(source)}, **recipe}))
        out = io.StringIO()
        argv = ["hfconvert", "run", str(path), "--output", str(output), "--json"]
        monkeypatch.setattr(sys, "argv", argv)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = main()
        assert output.exists() == (code == 0)
        return code, json.loads(out.getvalue())

    return convert


def check(report: dict[str, Any], name: str = "logits") -> dict[str, Any]:
    (found,) = (one for one in report["checks"] if one["name"] == name)
    assert isinstance(found, dict)
    return found


def test_equal_bits_need_no_logits(run: Run) -> None:
    code, report = run()
    assert code == 0
    assert check(report)["status"] == "skipped"
    assert check(report)["detail"] == "every value is the source's, bit for bit: so are the logits"


def test_a_cast_is_compared_with_what_transformers_reads(run: Run) -> None:
    code, report = run(dtype="bfloat16")
    assert code == 0
    assert check(report)["status"] == "pass"
    assert 0 < check(report)["measured"]["residual"] < 0.02
    assert check(report)["limit"]["cosine_min"] == 0.999


def test_limits_and_prompts_come_from_the_recipe(run: Run) -> None:
    code, report = run(dtype="bfloat16", validate={"logits": {"min_cosine": 0.99999999}})
    assert code == 1
    assert check(report)["status"] == "fail"
    (error,) = (one for one in report["findings"] if one["level"] == "error")
    assert "worst is" in error["message"]


def test_off_is_off(run: Run) -> None:
    code, report = run(dtype="bfloat16", validate={"logits": "off"})
    assert code == 0
    assert check(report)["detail"] == "validate.logits is off"


def test_without_a_class_it_is_skipped_with_the_reason(run: Run, source: Path) -> None:
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "architectures": ["Nobody"]}))
    code, report = run(dtype="bfloat16")
    assert code == 0
    assert "no class of transformers fits" in check(report)["detail"]


def test_a_source_under_other_names_needs_a_reference(run: Run, source: Path) -> None:
    state = torch.load(source / "pytorch_model.bin", weights_only=True)
    torch.save({f"net.{n}": one for n, one in state.items()}, source / "pytorch_model.bin")
    code, report = run(dtype="bfloat16", key_map=[{"strip_prefix": ["net."]}])
    assert code == 0
    assert "validate.reference takes a folder, or golden logits" in check(report)["detail"]


@pytest.fixture
def reference(tmp_path: Path, source: Path) -> Path:
    """The source's model as transformers itself writes it."""
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig.from_pretrained(source))
    model.load_state_dict(torch.load(source / "pytorch_model.bin", weights_only=True))
    model.save_pretrained(tmp_path / "reference")
    return tmp_path / "reference"


def test_a_reference_finds_a_wrong_map_that_every_other_check_passes(
    run: Run, source: Path, reference: Path
) -> None:
    """Layers swapped by a rename: names fit, values are the source's, and only the reference knows better."""
    state = torch.load(source / "pytorch_model.bin", weights_only=True)
    renamed = {name.replace("model.layers.", "blocks."): one for name, one in state.items()}
    torch.save(renamed, source / "pytorch_model.bin")
    right = [{"rename": {"blocks.{i}.*": "model.layers.{i}.*"}}]
    swap = {"blocks.0.*": "model.layers.1.*", "blocks.1.*": "model.layers.0.*"}
    wish = {"reference": str(reference)}

    code, report = run(key_map=[{"rename": swap}], validate=wish)
    assert code == 1
    assert {one["name"] for one in report["checks"] if one["status"] == "fail"} == {"logits"}
    code, report = run(key_map=right, validate=wish)
    assert code == 0
    assert check(report)["status"] == "pass"


@pytest.mark.parametrize(("sign", "status"), [(1, "pass"), (-1, "fail")])
def test_golden_logits_do_as_well(
    run: Run, reference: Path, tmp_path: Path, sign: int, status: str
) -> None:
    from safetensors.torch import save_file
    from transformers import LlamaForCausalLM

    ids = torch.arange(8)[None]
    with torch.inference_mode():
        logits = sign * LlamaForCausalLM.from_pretrained(reference)(ids).logits
    save_file({"input_ids": ids, "logits": logits}, tmp_path / "golden.safetensors")
    code, report = run(validate={"reference": str(tmp_path / "golden.safetensors")})
    assert code == int(status == "fail")
    assert check(report)["status"] == status
    assert check(report)["measured"]["inputs"] == 1
    assert check(report, "architecture")["detail"] == "LlamaForCausalLM"


def test_prompts_from_a_file_that_is_not_there_are_exit_2(run: Run) -> None:
    code, report = run(dtype="bfloat16", validate={"logits": {"inputs": "./nowhere.txt"}})
    assert code == 2
    assert "the inputs cannot be read" in report["findings"][0]["message"]
