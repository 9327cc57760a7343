from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from hfconvert.cli import main


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        parsed = json.loads(self.out)
        assert isinstance(parsed, dict)
        return parsed


Command = Callable[..., Said]
Write = Callable[..., str]


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Command]:
    """Run a command in this process, from the folder of the test."""
    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.chdir(tmp_path)

    def answer(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["hfconvert", *arguments])
        code = main()
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    yield answer
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def write_recipe(tmp_path: Path) -> Write:
    """Write the recipe of the test, changed by what is given; its name."""

    def write(**parts: Any) -> str:
        document = {
            "version": 1,
            "source": {"path": "./source"},
            "output": {"path": "./out"},
            **parts,
        }
        (tmp_path / "recipe.yaml").write_text(json.dumps(document, indent=2))
        return "recipe.yaml"

    return write


@pytest.fixture
def recipe(tmp_path: Path, write_recipe: Write) -> str:
    """A recipe for a source of three pickled tensors and a configuration, to be written to `out`."""
    source = tmp_path / "source"
    source.mkdir()
    state = {f"layer.{i}.weight": torch.arange(6.0).reshape(2, 3) + i for i in range(3)}
    torch.save(state, source / "pytorch_model.bin")
    (source / "config.json").write_text('{"torch_dtype": "float32"}')
    return write_recipe()
