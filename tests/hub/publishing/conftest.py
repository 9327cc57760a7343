"""Repositories to publish to, and one way to run the program on a recipe."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from hfconvert.cli import main
from tests.hub.loopback.server import RunningHub

CONFIG = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_layer": 1,
    "n_head": 2,
    "n_embd": 8,
    "vocab_size": 16,
    "n_positions": 8,
    "torch_dtype": "float32",
}
OWNER = "owner"


@dataclass(frozen=True)
class Done:
    """How a command ended: exit code, JSON document, what it said on stderr."""

    code: int
    document: dict[str, Any]
    said: str

    @property
    def status(self) -> str:
        return str(self.document["status"])

    @property
    def publish(self) -> dict[str, Any]:
        found = self.document["publish"]
        assert isinstance(found, dict), self.document["findings"]
        return found

    def findings(self, level: str = "error") -> str:
        """Findings of a level as text: subject, message, hint."""
        return "\n".join(
            f"{one['subject']}: {one['message']}; {one['hint']}"
            for one in self.document["findings"]
            if one["level"] == level
        )


Run = Callable[..., Done]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which results lie that are only made to be published."""
    folder = tmp_path / "hf-home"
    monkeypatch.setenv("HF_HOME", str(folder))
    return folder / "hfconvert"


@pytest.fixture
def state() -> dict[str, torch.Tensor]:
    """The weights of a GPT-2 of a few kilobytes, its head tied to its embedding."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config.from_dict(CONFIG))
    return dict(model.state_dict())


@pytest.fixture
def files(state: dict[str, torch.Tensor], tmp_path: Path) -> dict[str, bytes]:
    """A repository as thousands are: a pickle, a configuration, a card."""
    path = tmp_path / "pytorch_model.bin"
    torch.save(state, path)
    return {
        "pytorch_model.bin": path.read_bytes(),
        "config.json": json.dumps(CONFIG).encode(),
        "README.md": b"---\nlicense: mit\n---\n# A model\n\nIts owner's words.\n",
    }


@pytest.fixture
def run(
    hub: RunningHub,
    home: Path,
    tmp_path: Path,
    sign_in: Callable[[str], None],
) -> Run:
    """Write a recipe and run it, as the console script does; signed in as `owner` or by a token."""

    def act(*options: str, token: str | None = "", source: Any = None, **recipe: Any) -> Done:
        if token is not None:
            sign_in(token or hub.token())
        document = {"version": 1, "source": source or {"repo": "owner/m"}, "publish": {}, **recipe}
        path = tmp_path / "recipe.yaml"
        path.write_text(json.dumps(document))
        return command("run", str(path), "--json", *options)

    return act


@pytest.fixture
def verify(hub: RunningHub, sign_in: Callable[[str], None]) -> Run:
    """Verify a candidate against `owner/m`; signed in as `owner`, or by a token."""

    def act(candidate: str, *options: str, token: str | None = "", source: str = "owner/m") -> Done:
        if token is not None:
            sign_in(token or hub.token())
        return command("verify", source, candidate, "--json", *options)

    return act


@pytest.fixture
def interrupted(run: Run, tmp_path: Path) -> Callable[..., int]:
    """Run a recipe that will be interrupted; its exit code."""

    def act(**recipe: Any) -> int:
        try:
            return run(**recipe).code
        except json.JSONDecodeError:  # an interrupted command leaves no document
            return 130

    return act


def command(*arguments: str) -> Done:
    """Run a command in this process."""
    out, said = io.StringIO(), io.StringIO()
    argv, handler = sys.argv, signal.getsignal(signal.SIGTERM)
    sys.argv = ["hfconvert", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            code = main()
    finally:
        sys.argv = argv
        signal.signal(signal.SIGTERM, handler)
    assert "Traceback" not in said.getvalue(), said.getvalue()
    return Done(int(code), json.loads(out.getvalue()), said.getvalue())


@pytest.fixture
def repo(hub: RunningHub, files: Mapping[str, bytes]) -> Any:
    """`owner/m` with these files."""
    return hub.repo("owner/m", files)
