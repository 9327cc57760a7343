"""A source, a right conversion of it, and one way to verify the two."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hfconvert.cli import main
from tests.verifying.verified import CONFIG, Change, State, Verified, Verify


@pytest.fixture
def verify() -> Verify:
    def run(*arguments: object) -> Verified:
        out, said = io.StringIO(), io.StringIO()
        argv, handler = sys.argv, signal.getsignal(signal.SIGTERM)
        sys.argv = ["hfconvert", "verify", *map(str, arguments), "--json"]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
                code = main()
        finally:
            sys.argv = argv
            signal.signal(signal.SIGTERM, handler)
        assert "Traceback" not in said.getvalue(), said.getvalue()
        return Verified(code, json.loads(out.getvalue()), said.getvalue())

    return run


@pytest.fixture
def state() -> State:
    generator = torch.Generator().manual_seed(3)
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (12, 8)}
    for layer in range(3):
        for name, shape in {
            "self_attn.q_proj.weight": (8, 8),
            "self_attn.q_proj.bias": (8,),
            "mlp.up_proj.weight": (16, 8),
            "input_layernorm.weight": (8,),
        }.items():
            shapes[f"model.layers.{layer}.{name}"] = shape
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


@pytest.fixture
def source(tmp_path: Path, state: State) -> Path:
    """A pickled model with a tied head, a tokenizer, custom code and a card."""
    root = tmp_path / "source"
    root.mkdir()
    tied = {**state, "lm_head.weight": state["model.embed_tokens.weight"]}
    torch.save(tied, root / "pytorch_model.bin")
    (root / "config.json").write_text(json.dumps(CONFIG))
    (root / "tokenizer.json").write_text('{"version": "1.0"}')
    (root / "modeling_x.py").write_text("x = 1\n")
    (root / "README.md").write_text("# A model\n")
    return root


@pytest.fixture
def candidate(tmp_path: Path, source: Path, state: State) -> Path:
    """A right conversion of the source."""
    root = tmp_path / "candidate"
    shutil.copytree(source, root, ignore=shutil.ignore_patterns("*.bin"))
    save_file(state, root / "model.safetensors", metadata={"format": "pt"})
    return root


@pytest.fixture
def change(candidate: Path) -> Change:
    """Change the tensors of the candidate in place."""

    def edit_all(edit: Callable[[State], Mapping[str, torch.Tensor] | None]) -> None:
        path = candidate / "model.safetensors"
        tensors = load_file(path)
        changed = edit(tensors) or tensors
        save_file({name: one.contiguous() for name, one in changed.items()}, path)

    return edit_all
