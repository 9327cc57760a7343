"""The JSON documents and texts of `plan` and `run` for one small model, as they are kept in `tests/golden/`.

When they change on purpose: `python tests/test_documents.py` writes them anew; read the difference.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import sys
import tempfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from hfconvert.cli import main

GOLDEN = Path(__file__).parent / "golden"
MASKED = {"versions", "seconds", "peak_memory_bytes", "digest", "opening"}
LAYER = {
    "self_attn.q_proj": (16, 16),
    "self_attn.k_proj": (8, 16),
    "self_attn.v_proj": (8, 16),
    "self_attn.o_proj": (16, 16),
    "mlp.gate_proj": (32, 16),
    "mlp.up_proj": (32, 16),
    "mlp.down_proj": (16, 32),
    "input_layernorm": (16,),
    "post_attention_layernorm": (16,),
}
RECIPE = {
    "version": 1,
    "source": {"path": "./source"},
    "key_map": [{"strip_prefix": ["module."]}, {"drop": ["*.inv_freq"]}],
    "dtype": {"default": "bfloat16", "rules": {"*norm*": "float32"}},
    "output": {"path": "./out", "max_shard_size": "10KB"},
    "validate": {"architecture": "off", "logits": "off"},
}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}


def write_source(folder: Path) -> None:
    """A llama-shaped model of 21 tensors under a wrapper's prefix, tied by value, and one buffer."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens": (32, 16)}
    for layer in range(2):
        shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in LAYER.items()}
    shapes["model.norm"] = (16,)
    state = {
        f"module.{name}.weight": _values(shape, number)
        for number, (name, shape) in enumerate(shapes.items())
    }
    state["module.lm_head.weight"] = state["module.model.embed_tokens.weight"].copy()
    state["module.rotary.inv_freq"] = np.ones(4, np.float32)
    source = folder / "source"
    source.mkdir()
    save_file(state, source / "model.safetensors", metadata={"format": "pt"})
    (source / "config.json").write_text(json.dumps(CONFIG))
    (source / "tokenizer.json").write_text("{}")
    (folder / "recipe.yaml").write_text(json.dumps(RECIPE))


def _values(shape: tuple[int, ...], number: int) -> NDArray[np.float32]:
    """Numbers of both signs that bfloat16 has to round."""
    numbers = (np.arange(prod(shape)) * 37 + number) % 1009 - 500
    return (numbers / 640).astype(np.float32).reshape(shape)


def answer(command: str) -> str:
    """The document of a command in the current folder, with what differs by machine and time masked."""
    document = json.loads(_said(command, "--json"))
    assert re.fullmatch(r"[0-9a-f]{64}", document["digest"])
    return json.dumps(_masked(document), indent=1) + "\n"


def text(command: str) -> str:
    """What a command says on a terminal, with times, memory and what opening a file took masked."""
    kept = [
        line for line in _said(command).splitlines() if not line.startswith(("  open", "needs"))
    ]
    return re.sub(r"took .*", "took masked", "\n".join(kept)) + "\n"


def _said(command: str, *options: str) -> str:
    out, handler, arguments = io.StringIO(), signal.getsignal(signal.SIGTERM), sys.argv
    sys.argv = ["hfconvert", command, "recipe.yaml", *options]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            assert main() == 0
    finally:
        sys.argv = arguments
        signal.signal(signal.SIGTERM, handler)
    return out.getvalue()


def _masked(document: dict[str, Any]) -> dict[str, Any]:
    return {key: "masked" if key in MASKED else value for key, value in document.items()}


@pytest.mark.parametrize("command", ["plan", "run"])
def test_the_document_is_the_one_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_source(tmp_path)
    assert answer(command) == (GOLDEN / f"{command}.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["plan", "run"])
def test_the_text_is_the_one_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_source(tmp_path)
    assert text(command) == (GOLDEN / f"{command}.txt").read_text(encoding="utf-8")


def write_golden() -> None:
    """Write the documents anew."""
    GOLDEN.mkdir(exist_ok=True)
    for command in ("plan", "run"):
        for ending, said in (("json", answer), ("txt", text)):
            with tempfile.TemporaryDirectory() as folder:
                write_source(Path(folder))
                os.chdir(folder)
                (GOLDEN / f"{command}.{ending}").write_text(said(command), encoding="utf-8")


if __name__ == "__main__":
    write_golden()
