"""What commands answer: text or one document on stdout, all else on stderr."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from hfconvert.errors import Exit

Command = Callable[..., Any]
Write = Callable[..., str]


def test_converted_then_up_to_date(command: Command, recipe: str, tmp_path: Path) -> None:
    first = command("run", recipe)
    assert first.code == Exit.OK
    assert first.out.startswith("converted  ")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    second = command("run", recipe)
    assert second.code == Exit.OK
    assert second.out.startswith("up-to-date  ")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_plan_and_dry_run_write_nothing(command: Command, recipe: str, tmp_path: Path) -> None:
    planned = command("plan", recipe)
    assert (planned.code, planned.err) == (Exit.OK, "")
    assert "model.safetensors" in planned.out
    dry = command("run", recipe, "--dry-run", "--json")
    assert dry.code == Exit.OK
    assert dry.document["status"] == "planned"
    assert dry.document["outputs"] == []
    assert {path.name for path in tmp_path.iterdir()} == {"source", "recipe.yaml"}


def test_the_options_win_over_the_recipe(command: Command, recipe: str, tmp_path: Path) -> None:
    said = command(
        "run", recipe, "--output", "other", "--set", "output.filename=best.safetensors", "--json"
    )
    assert said.document["output"] == "other"
    assert (tmp_path / "other" / "best.safetensors").exists()
    assert not (tmp_path / "out").exists()


def test_a_report_goes_to_a_file_too(command: Command, recipe: str, tmp_path: Path) -> None:
    said = command("run", recipe, "--report", "report.json", "--json")
    assert json.loads((tmp_path / "report.json").read_bytes()) == said.document
    failed = command("run", recipe, "--set", "dtype=float17", "--report", "report.json")
    assert failed.code == Exit.RECIPE
    assert json.loads((tmp_path / "report.json").read_bytes())["status"] == "failed"


def test_a_report_that_cannot_be_written(command: Command, recipe: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").mkdir()
    said = command("run", recipe, "--report", "report.json", "--json")
    assert said.code == Exit.RECIPE
    assert "error: --report: the report cannot be written" in said.err
    assert said.document["status"] == "converted"
    assert (tmp_path / "out" / "model.safetensors").exists()


@pytest.mark.parametrize("option", ["--report", "--html"])
def test_a_place_that_is_not_there_is_said_before_any_work(
    command: Command, recipe: str, tmp_path: Path, option: str
) -> None:
    said = command("run", recipe, option, "nowhere/report", "--json")
    assert said.code == Exit.RECIPE
    assert said.err.startswith(f"error: {option}: the ")
    assert "to nowhere/report: there is no such folder\n" in said.err
    assert said.document["status"] == "failed"
    assert not (tmp_path / "out").exists()


def test_what_is_wrong_with_an_output_names_the_option(command: Command, recipe: str) -> None:
    assert command("run", recipe, "--output", "source").err.startswith("error: --output: ")
    assert command("run", recipe, "--set", "output.path=source").err.startswith("error: --set ")


def test_quiet_says_only_what_went_wrong(command: Command, recipe: str) -> None:
    good = command("run", recipe, "-q")
    assert (good.code, good.out, good.err) == (Exit.OK, "", "")
    bad = command("run", recipe, "-q", "--output", "source")
    assert bad.code == Exit.RECIPE
    assert bad.err.startswith("error: ")


def test_quiet_json_is_still_the_document(command: Command, recipe: str) -> None:
    assert command("run", recipe, "-q", "--json").document["status"] == "converted"


def test_names_that_no_encoding_holds_are_said_all_the_same(
    command: Command, recipe: str, tmp_path: Path
) -> None:
    strange = os.fsencode(tmp_path / "source") + b"/caf\xe9.txt"
    Path(os.fsdecode(strange)).write_bytes(b"x")
    said = command("run", recipe, "--json", "--report", "report.json")
    assert said.code == Exit.OK
    said.out.encode("ascii")
    (finding,) = (one for one in said.document["findings"] if "caf" in one["message"])
    assert finding["level"] == "warning"
    assert command("run", recipe).out.startswith("up-to-date")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "-h"], ["plan", "--help"], ["--version"]]
)
def test_help_and_version(command: Command, arguments: list[str]) -> None:
    said = command(*arguments)
    assert (said.code, said.err) == (Exit.OK, "")
    assert said.out


def test_only_commands_that_work_are_listed(command: Command) -> None:
    listed = command("--help").out
    for name in ("run", "plan", "inspect", "schema"):
        assert f" {name} " in listed
        assert command(name, "--help").code == Exit.OK


def test_safetensors_sources_convert_as_well(
    command: Command, write_recipe: Write, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    save_file({"w": torch.ones(3)}, tmp_path / "source" / "model.safetensors")
    said = command("run", write_recipe(), "--json")
    assert said.code == Exit.OK
    checks = {check["name"]: check["status"] for check in said.document["checks"]}
    assert {name for name, status in checks.items() if status == "pass"} >= {"names", "tensors"}
    assert "fail" not in checks.values()


@pytest.mark.parametrize("name", ["\\ud800", "\\udcff"])
def test_halves_of_pairs_in_an_index_are_shown(command: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "source").mkdir(exist_ok=True)
    save_file({"w": torch.ones(3)}, tmp_path / "source" / "model.safetensors")
    index = f'{{"metadata": {{}}, "weight_map": {{"{name}": "model.safetensors"}}}}'
    (tmp_path / "source" / "model.safetensors.index.json").write_text(index)
    said = command("inspect", "./source", "--json")
    assert said.code == Exit.OK
    json.dumps(said.document, ensure_ascii=False).encode("utf-8")
    assert any(one["level"] == "error" for one in said.document["problems"])
    assert command("inspect", "./source").code == Exit.OK
