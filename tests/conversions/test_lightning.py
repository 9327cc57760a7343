"""Checkpoints that Lightning and training loops of one's own wrote, converted bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from typer.testing import CliRunner

from hfconvert.cli import app

FIXTURES = Path(__file__).parents[1] / "fixtures" / "lightning"
CHECKPOINTS = {
    "pl_compile": "checkpoint",
    "pl_ema": "checkpoint",
    "pl_hparams": "checkpoint",
    "raw_ddp_compile": "checkpoint.pth",
}
# Fixture, set of weights, prefixes to take off, what must come out.
CASES = [
    ("pl_compile", None, ["model.", "_orig_mod."], "expected"),
    ("pl_hparams", None, ["model."], "expected"),
    ("pl_ema", None, ["model."], "expected"),
    ("pl_ema", "state_dict", ["model."], "expected"),
    ("pl_ema", "current_model_state", ["model."], "expected_current"),
    ("raw_ddp_compile", "model", ["module.", "_orig_mod."], "expected"),
    ("raw_ddp_compile", "ema", [], "expected_ema"),
]
Run = Callable[..., tuple[int, dict[str, Any], Path]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def convert(fixture: str, weights: str | None = None, **recipe: Any) -> Any:
        source = {"path": str(FIXTURES / fixture / CHECKPOINTS[fixture])}
        if weights is not None:
            source["weights"] = weights
        checks = {"architecture": "off", "logits": "off"}
        path = tmp_path / "recipe.yaml"
        path.write_text(json.dumps({"version": 1, "source": source, "validate": checks, **recipe}))
        arguments = ["run", str(path), "--output", str(tmp_path / "out"), "--json", "-q"]
        done = CliRunner().invoke(app, arguments)
        return done.exit_code, json.loads(done.stdout), tmp_path / "out"

    return convert


def values(path: Path) -> dict[str, tuple[str, bytes]]:
    with safe_open(str(path), framework="np") as opened:
        return {
            name: (str(opened.get_tensor(name).dtype), opened.get_tensor(name).tobytes())
            for name in opened.keys()  # noqa: SIM118 - no mapping
        }


@pytest.mark.parametrize(("fixture", "weights", "prefixes", "expected"), CASES)
def test_weights_come_out_bit_for_bit(
    run: Run, fixture: str, weights: str | None, prefixes: list[str], expected: str
) -> None:
    steps = [{"strip_prefix": prefixes}] if prefixes else []
    code, document, output = run(fixture, weights, key_map=steps)
    assert code == 0, document["findings"]
    (written,) = output.glob("*.safetensors")
    assert values(written) == values(FIXTURES / fixture / f"{expected}.safetensors")
    assert all(check["status"] in ("pass", "skipped") for check in document["checks"])


def test_without_steps_names_are_those_of_the_module(run: Run) -> None:
    code, _, output = run("pl_hparams")
    assert code == 0
    (written,) = output.glob("*.safetensors")
    plain = values(FIXTURES / "pl_hparams" / "expected.safetensors")
    assert values(written) == {f"model.{name}": value for name, value in plain.items()}


def test_what_lightning_loads_is_read_and_the_other_sets_are_said(run: Run) -> None:
    _, document, _ = run("pl_ema", key_map=[{"strip_prefix": ["model."]}])
    (found,) = (one for one in document["findings"] if "sets of weights" in one["message"])
    assert "`state_dict` is read" in found["message"]
    assert "current_model_state (21 tensors, 133760 bytes)" in found["hint"]


def test_several_sets_without_a_choice(run: Run) -> None:
    code, document, output = run("raw_ddp_compile")
    assert code == 2
    assert not output.exists()
    (error,) = (one for one in document["findings"] if one["level"] == "error")
    assert "model (21 tensors, 133760 bytes), ema (21 tensors, 133760 bytes)" in error["message"]
    assert error["hint"] == "choose one with source.weights"


def test_a_set_that_is_not_there(run: Run) -> None:
    code, document, _ = run("pl_ema", "ema")
    assert code == 2
    (error,) = (one for one in document["findings"] if one["level"] == "error")
    assert "no set of weights called 'ema'" in error["message"]
    assert "state_dict (" in error["hint"]


def test_hyper_parameters_of_any_class_are_read_as_data() -> None:
    """Namespace, a path, dtypes, omegaconf without omegaconf, a dataclass of a script."""
    done = CliRunner().invoke(
        app, ["inspect", str(FIXTURES / "pl_hparams" / "checkpoint"), "--json"]
    )
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    training = document["training"]
    assert (document["kind"], document["format"]) == ("training", "lightning")
    assert (training["epoch"], training["step"], training["framework"]) == (0, 2, "lightning")
    assert training["hyper_parameters"]["args"]["dtype"] == "torch.bfloat16"
    assert training["optimizer_bytes"] == 2 * 133_760 + 4 * 21
    (pickle,) = document["pickle"]
    assert pickle["dangerous"] == []
    assert "omegaconf.dictconfig.DictConfig" in pickle["stubbed"]
    assert document["safe"] is False
