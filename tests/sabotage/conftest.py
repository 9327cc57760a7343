"""Seven kinds of tiny models, each pickled with its configuration, and a right conversion of each."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from hfconvert.cli import main

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 40}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", {**SIZES, "intermediate_size": 32}),
    "gpt2": (
        "GPT2LMHeadModel",
        {"n_embd": 16, "n_layer": 2, "n_head": 4, "vocab_size": 40, "n_positions": 32},
    ),
    "bert": ("BertForMaskedLM", {**SIZES, "intermediate_size": 32}),
    "t5": (
        "T5ForConditionalGeneration",
        {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 40},
    ),
    "vit": (
        "ViTForImageClassification",
        {**SIZES, "intermediate_size": 32, "image_size": 8, "patch_size": 4},
    ),
    "whisper": (
        "WhisperForConditionalGeneration",
        {
            "d_model": 16,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 32,
            "decoder_ffn_dim": 32,
            "vocab_size": 40,
            "num_mel_bins": 8,
            "max_source_positions": 10,
            "max_target_positions": 16,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
    ),
    "mixtral": (
        "MixtralForCausalLM",
        {**SIZES, "intermediate_size": 32, "num_local_experts": 2, "num_key_value_heads": 4},
    ),
}
State = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Sides:
    """The folders of a source and of somebody's conversion of it, which a test may spoil."""

    kind: str
    source: Path
    candidate: Path

    def state(self) -> State:
        """The tensors of the conversion."""
        from safetensors.torch import load_file

        return dict(load_file(self.candidate / "model.safetensors"))

    def store(self, state: State) -> None:
        """Put other tensors in their place."""
        from safetensors.torch import save_file

        contiguous = {name: one.contiguous() for name, one in state.items()}
        save_file(contiguous, self.candidate / "model.safetensors", metadata={"format": "pt"})


@dataclass(frozen=True)
class Done:
    """Exit code and report of a command."""

    code: int
    report: dict[str, Any]

    def failed(self) -> set[str]:
        """Names of the checks that failed."""
        return {one["name"] for one in self.report["checks"] if one["status"] == "fail"}

    def said(self) -> str:
        """Errors, and details of the checks, one a line."""
        lines = [f"{one['subject']}: {one['message']}" for one in self.report["findings"]]
        return "\n".join([*lines, *(one["detail"] for one in self.report["checks"])])


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder with `source` and `candidate` of a kind; made once, not to be changed."""
    made: dict[str, Path] = {}

    def build(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind)
            _build(made[kind], *KINDS[kind])
        return made[kind]

    return build


@pytest.fixture(params=sorted(KINDS))
def sides(request: pytest.FixtureRequest, built: Callable[[str], Path], tmp_path: Path) -> Sides:
    """A source and a right conversion of every kind, to be spoiled."""
    shutil.copytree(built(request.param), tmp_path / "sides")
    return Sides(request.param, tmp_path / "sides" / "source", tmp_path / "sides" / "candidate")


@pytest.fixture
def hfconvert(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Run a command with `--json`."""

    def run(*arguments: object) -> Done:
        out = io.StringIO()
        monkeypatch.setattr(sys, "argv", ["hfconvert", *map(str, arguments), "--json"])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = main()
        return Done(int(code), json.loads(out.getvalue()))

    return run


def _build(folder: Path, class_name: str, values: dict[str, Any]) -> None:
    import transformers
    from safetensors.torch import load_file

    cls = getattr(transformers, class_name)
    config = cls.config_class(**values)
    config.architectures = [class_name]
    torch.manual_seed(4)
    model = cls(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    model.save_pretrained(folder / "candidate")
    shutil.copytree(folder / "candidate", folder / "source")
    (folder / "source" / "model.safetensors").unlink()
    state = load_file(folder / "candidate" / "model.safetensors")
    torch.save(dict(state), folder / "source" / "pytorch_model.bin")
