"""Results of recipes and their records: current and whole, or a broken rule."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hfconvert.console import Console
from hfconvert.errors import UserError
from hfconvert.gate import check
from hfconvert.recipe import load
from hfconvert.report.model import Report
from hfconvert.run import run
from tests.written_files import write_files

State = dict[str, torch.Tensor]
Gate = Callable[[], Report]
RECIPE = """\
version: 1
source: {path: model/checkpoint}
key_map:
  - rename: {"layers.{i}.*": "model.layers.{i}.*"}
dtype: bfloat16
output: {path: model/result}
"""


@pytest.fixture
def root(tmp_path: Path, state: State) -> Path:
    """A folder with a checkpoint and what its recipe made of it."""
    config = {"model_type": "x", "torch_dtype": "float32"}
    root = write_files(
        tmp_path / "model",
        {"checkpoint/pytorch_model.bin": state, "checkpoint/config.json": config},
    )
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    run(load(tmp_path / "recipe.yaml", ()), Console(-1))
    return root


@pytest.fixture
def gate(root: Path) -> Gate:
    """Judge the folder with its recipe."""
    return lambda: check(str(root), load(root.parent / "recipe.yaml", ()), Console(-1))


def errors(report: Report, name: str) -> str:
    return "\n".join(
        f"{one.subject}: {one.message}"
        for one in report.findings
        if one.level == "error" and one.check == name
    )


def broken(report: Report) -> set[str]:
    return {one.name for one in report.checks if one.status == "fail"}


def test_a_current_result_speaks_for_the_pickles_of_its_source(gate: Gate) -> None:
    report = gate()

    assert broken(report) == set()
    assert report.status == "verified"
    assert [one.name for one in report.checks][-1] == "recipe"


def test_without_the_recipe_they_are_pickles_alone(root: Path) -> None:
    report = check(str(root), None, Console(-1))

    assert broken(report) == {"format"}
    assert errors(report, "format").startswith("checkpoint/pytorch_model.bin: ")


def test_other_pickles_are_not_spoken_for(gate: Gate, root: Path, state: State) -> None:
    write_files(root, {"other/pytorch_model.bin": state})
    assert errors(gate(), "format").startswith("other/pytorch_model.bin: ")


def test_a_source_that_changed_makes_the_result_stale(gate: Gate, root: Path, state: State) -> None:
    changed = {**state, "layers.0.q": state["layers.0.q"] + 1}
    write_files(root, {"checkpoint/pytorch_model.bin": changed})
    report = gate()

    assert broken(report) == {"recipe"}
    assert "the result is stale" in errors(report, "recipe")


def test_a_recipe_that_changed_makes_the_result_stale(gate: Gate, root: Path) -> None:
    (root.parent / "recipe.yaml").write_text(RECIPE.replace("bfloat16", "float16"))
    assert "the result is stale" in errors(gate(), "recipe")


def test_a_result_that_is_not_there(gate: Gate, root: Path) -> None:
    shutil.rmtree(root / "result")
    report = gate()

    assert broken(report) == {"recipe"}
    assert errors(report, "recipe").startswith(f"{root / 'result'}: the result of the recipe is")


def _flip(root: Path) -> Path:
    """Change a value of the result; the file that holds it."""
    file = root / "result" / "model.safetensors"
    tensors = load_file(file)
    tensors["model.layers.1.k"][0, 0] += 1
    save_file(tensors, file, metadata={"format": "pt"})
    return file


def test_a_changed_value_is_found_by_the_values_and_by_the_record(gate: Gate, root: Path) -> None:
    _flip(root)
    report = gate()

    assert broken(report) == {"proof", "recipe"}
    assert "the result is not what the recipe makes" in errors(report, "recipe")
    assert "model.layers.1.k: 1 of 12 values differ" in errors(report, "tensors")
    assert errors(report, "proof").startswith(
        "result/hfconvert.json: other files than it says: `model.safetensors`"
    )


def test_a_forged_record_does_not_hide_a_changed_value(gate: Gate, root: Path) -> None:
    from hfconvert.hashing import hash_file

    file = _flip(root)
    record: dict[str, Any] = json.loads((root / "result" / "hfconvert.json").read_bytes())
    for output in record["report"]["outputs"]:
        if output["file"] == file.name:
            output.update(size=file.stat().st_size, sha256=hash_file(file))
    write_files(root, {"result/hfconvert.json": record})

    assert broken(gate()) == {"recipe"}


def test_a_side_file_that_people_change_is_said(gate: Gate, root: Path) -> None:
    write_files(root, {"result/tokenizer.json": b"{}"})
    record = json.loads((root / "result" / "hfconvert.json").read_bytes())
    made = {"file": "tokenizer.json", "size": 3, "sha256": "0" * 64}
    record["report"]["outputs"].append(made)
    write_files(root, {"result/hfconvert.json": record})
    report = check(str(root / "result"), None, Console(-1))

    assert broken(report) == set()
    assert any("changed or removed after the conversion" in one.message for one in report.findings)


STRANGE: tuple[Any, ...] = ([{}], [{"file": 5, "size": "x", "sha256": None}], 3)


@pytest.mark.parametrize(
    "record",
    [
        *(b"{", b"[" * 100_000, {"digest": "x"}, [1]),
        *({"report": {"outputs": outputs}} for outputs in STRANGE),
    ],
    ids=range(7),
)
def test_a_record_that_is_none_is_no_proof(tmp_path: Path, state: State, record: Any) -> None:
    root = write_files(tmp_path, {"model.safetensors": state, "hfconvert.json": record})
    report = check(str(root), None, Console(-1))

    assert broken(report) == {"proof"}
    assert "this record of a conversion tells of no file" in errors(report, "proof")


def test_a_record_of_a_failed_check_is_no_proof(root: Path) -> None:
    record = json.loads((root / "result" / "hfconvert.json").read_bytes())
    record["report"]["checks"][0]["status"] = "fail"
    write_files(root, {"result/hfconvert.json": record})

    report = check(str(root / "result"), None, Console(-1))
    assert "a check failed when this was made" in errors(report, "proof")


def test_a_recipe_without_a_source_cannot_be_planned(gate: Gate, root: Path) -> None:
    shutil.rmtree(root / "checkpoint")
    with pytest.raises(UserError):
        gate()
