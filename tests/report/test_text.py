from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from hfconvert.cli import app


@pytest.fixture
def say(tmp_path: Path) -> Callable[..., list[str]]:
    """What a command says of a small checkpoint, line by line."""

    def run(command: str, state: dict[str, Any], **recipe: Any) -> list[str]:
        torch.save(state, tmp_path / "w.pt")
        document = {"version": 1, "source": {"path": "w.pt"}, **recipe}
        (tmp_path / "recipe.yaml").write_text(json.dumps(document))
        arguments = [command, str(tmp_path / "recipe.yaml"), "--output", str(tmp_path / "out")]
        return CliRunner().invoke(app, arguments).stdout.splitlines()

    return run


def starting(lines: list[str], start: str) -> list[str]:
    return [line.strip() for line in lines if line.strip().startswith(start)]


def layers(dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    return {f"l.{number}.w": torch.ones(5, 2, dtype=dtype) for number in range(4)}


def test_the_formula_of_the_sizes(say: Callable[..., list[str]]) -> None:
    lines = say("run", {**layers(), "step": torch.tensor(3)}, dtype="bfloat16")
    assert starting(lines, "before") == ["before   40 F32 x 4 bytes = 160 B, 1 I64 x 8 bytes = 8 B"]
    assert starting(lines, "after") == ["after    40 BF16 x 2 bytes = 80 B, 1 I64 x 8 bytes = 8 B"]
    assert starting(lines, "count") == ["count    5 -> 5 tensors: 1 unchanged, 4 cast"]
    assert starting(lines, "bytes") == ["bytes    168 B -> 88 B: cast -80 B"]
    assert starting(lines, "cast") == ["cast     4 tensors F32 -> BF16: l.{0..3}.w"]


def test_what_was_tied_and_dropped(say: Callable[..., list[str]]) -> None:
    state = {**layers(), "head": torch.ones(3)}
    state |= {"emb": state["head"], "old.a": torch.ones(1), "old.b": torch.ones(1)}
    lines = say("run", state, key_map=[{"drop": ["old.*"]}])
    assert starting(lines, "tie") == ["tie      head is emb, written once"]
    assert starting(lines, "drop") == ["drop     2 tensors by drop: old.*: old.a, old.b"]
    assert starting(lines, "count") == [
        "count    8 -> 5 tensors: 5 unchanged, 2 dropped, 1 tied",
    ]


def test_a_tie_step_is_told_once(say: Callable[..., list[str]]) -> None:
    state = {"a": torch.ones(3), "b": torch.ones(3)}
    lines = say("run", state, key_map=[{"tie": {"b": "a"}}])
    assert starting(lines, "tie") == ["tie      b is a, written once"]
    assert starting(lines, "drop") == []


def test_warnings_are_shown_with_what_to_do(say: Callable[..., list[str]]) -> None:
    lines = say("run", {"w": torch.tensor([1e-9, 1.0])}, dtype="float16")
    at = lines.index(starting_line(lines, "warning"))
    assert "1 of 2 values (50.00%) are too small" in lines[at]
    assert "keep a wider dtype" in lines[at + 1]


def starting_line(lines: list[str], start: str) -> str:
    (line,) = (line for line in lines if line.strip().startswith(start))
    return line


def test_many_files_are_told_by_their_ends(say: Callable[..., list[str]]) -> None:
    state = {f"w{number}": torch.ones(300) for number in range(12)}
    lines = say("run", state, output={"max_shard_size": "2KB"})
    files = [line for line in lines if "safetensors" in line and "sha256" in line]
    assert len(files) == 4
    assert "00012-of-00012" in files[-1]
    assert starting(lines, "... 8 more of") != []
    assert starting(lines, "and 1 other file") != []


def test_opening_is_measured(say: Callable[..., list[str]]) -> None:
    (line,) = starting(say("run", layers()), "opens")
    assert line.startswith("opens    in ")
    assert line.endswith("(to the first tensor, read by hfconvert)")


def test_the_plan_says_the_same_figures(say: Callable[..., list[str]]) -> None:
    lines = say("plan", layers(), dtype="float16")
    assert starting(lines, "after") == ["after    40 F16 x 2 bytes = 80 B"]
    assert starting(lines, "cast") == ["cast     4 tensors F32 -> F16: l.{0..3}.w"]
    assert starting(lines, "write") != []
    assert starting(lines, "map") == []


@pytest.mark.parametrize("command", ["run", "plan"])
def test_no_tensor_begins_a_line(say: Callable[..., list[str]], command: str) -> None:
    state = {"w\n::error::x": torch.ones(2), "w": torch.ones(2)}
    lines = say(command, state, key_map=[{"drop": ["*::*"]}])
    assert starting(lines, "::") == []
    assert starting(lines, "drop") == ["drop     1 tensor by drop: *::*: w\\n::error::x"]


def test_a_failed_run_names_no_place_that_is_not_there(say: Callable[..., list[str]]) -> None:
    lines = say("run", {"w": torch.tensor([1e30])}, dtype="float16")
    assert lines[0].startswith("failed  ")
    assert "->" not in lines[0]
    assert lines[0].endswith(": no output was made")
    assert starting(lines, "architecture") == ["architecture skipped  there is no config.json"]
