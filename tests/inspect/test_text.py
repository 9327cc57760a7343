from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

from hfconvert.inspect.facts import inspect
from hfconvert.inspect.text import inspect_text

Look = Callable[..., Any]


@pytest.fixture
def text(folder: Any) -> Callable[..., str]:
    def show(files: Any) -> str:
        return inspect_text(inspect(str(folder(files))))

    return show


def test_a_training_checkpoint(text: Callable[..., str]) -> None:
    weights = {f"module.layers.{number}.weight": torch.ones(4, 4) for number in range(3)}
    moments = {0: {"exp_avg": torch.ones(4, 4)}}
    optimizer = {"state": moments, "param_groups": [{"lr": 0.1}]}
    shown = text(
        {"last.pt": {"model": weights, "optimizer": optimizer, "epoch": 7, "args": {"lr": 0.1}}}
    )
    assert shown.splitlines()[:4] == [
        "a training checkpoint, format torch",
        "  48 parameters, 192 B: F32 192 B",
        "  beside them: optimizer 64 B",
        "  names carry module.",
    ]
    assert "  module.layers.{0..2}.weight  F32 [4, 4]" in shown
    assert "  epoch: 7" in shown
    assert "  args: lr=0.1" in shown
    assert "  optimizer: 64 B" in shown


def test_danger_is_said_aloud(text: Callable[..., str]) -> None:
    data = pickle.dumps({"w": torch.ones(1)}, 2)
    shown = text({"m.bin": data[:2] + b"cos\nsystem\n0cmy\nNet\n0" + data[2:]})
    assert "DANGEROUS: m.bin asks for os.system" in shown
    assert "m.bin: unknown classes, read as data: my.Net" in shown


def test_problems_come_with_what_to_do(text: Callable[..., str]) -> None:
    shown = text({"model.safetensors": b"<html>"})
    assert "nothing that can be converted" in shown
    assert "error: model.safetensors: it is an HTML or XML page" in shown
    assert "fetch the file again" in shown


def test_no_name_acts_on_a_terminal(text: Callable[..., str]) -> None:
    shown = text({"m.bin": {"a\x1b[31mred": torch.ones(1), "b\nc": torch.ones(2)}})
    assert "\x1b" not in shown
    assert "a\\x1b[31mred" in shown
    assert "b\\nc" in shown


def test_long_lists_are_cut(text: Callable[..., str]) -> None:
    names = {f"{'x' * number}.weight": torch.ones(1) for number in range(1, 60)}
    files = {f"notes-{number}.txt": b"x" for number in range(80)}
    shown = text({"m.bin": names, **files})
    assert "... and 19 more; --json lists them all" in shown
    assert "... and 21 more; --json lists them all" in shown
