"""Tiny models of every kind that the comparison knows, as folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hfconvert.checks.logits.check import Outcomes, Question, check_logits

COMMON = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 40}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", {**COMMON, "intermediate_size": 32}),
    "gpt2": (
        "GPT2LMHeadModel",
        {"n_embd": 16, "n_layer": 2, "n_head": 4, "vocab_size": 40, "n_positions": 32},
    ),
    "bert": ("BertForMaskedLM", {**COMMON, "intermediate_size": 32}),
    "bert-classes": ("BertForSequenceClassification", {**COMMON, "intermediate_size": 32}),
    "bert-embedding": ("BertModel", {**COMMON, "intermediate_size": 32}),
    "t5": (
        "T5ForConditionalGeneration",
        {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 40},
    ),
    "vit": (
        "ViTForImageClassification",
        {**COMMON, "intermediate_size": 32, "image_size": 8, "patch_size": 4},
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
        {**COMMON, "intermediate_size": 32, "num_local_experts": 2, "num_key_value_heads": 2},
    ),
    "clip": (
        "CLIPModel",
        {
            "text_config": {
                **COMMON,
                "intermediate_size": 32,
                "eos_token_id": 2,
                "bos_token_id": 1,
            },
            "vision_config": {
                "hidden_size": 16,
                "intermediate_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "image_size": 8,
                "patch_size": 4,
            },
            "projection_dim": 8,
        },
    ),
}

State = dict[str, torch.Tensor]
Edit = Callable[[State], None]


@pytest.fixture(params=sorted(CONFIGS))
def kind(request: pytest.FixtureRequest) -> str:
    """Every kind of model, one after the other."""
    return str(request.param)


@pytest.fixture
def folders(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """A reference (pickled) and a candidate (safetensors), of one model whose weights `edit` may change."""

    def make(name: str, edit: Edit | None = None, **changes: Any) -> tuple[Path, Path]:
        import transformers

        class_name, values = CONFIGS[name]
        cls = getattr(transformers, class_name)
        torch.manual_seed(1)
        config = cls.config_class(**{**values, **changes})
        config.architectures = [class_name]
        model = cls(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.2)
        reference, candidate = tmp_path / "reference", tmp_path / "candidate"
        reference.mkdir()
        config.save_pretrained(reference)
        model.save_pretrained(candidate)
        torch.save(stored(candidate), reference / "pytorch_model.bin")
        if edit is not None:
            change(candidate, edit)
        return reference, candidate

    return make


@pytest.fixture
def compare() -> Callable[..., Outcomes]:
    """Compare two folders."""

    def run(reference: Path, candidate: Path, **options: Any) -> Outcomes:
        config = json.loads((candidate / "config.json").read_text())
        return check_logits(
            Question(candidate=candidate, reference=reference, config=config, **options)
        )

    return run


def stored(folder: Path) -> State:
    """The tensors of a folder."""
    from safetensors.torch import load_file

    return dict(load_file(folder / "model.safetensors"))


def change(folder: Path, edit: Edit) -> None:
    """Change the tensors of a folder in place."""
    from safetensors.torch import save_file

    state = stored(folder)
    edit(state)
    contiguous = {name: tensor.contiguous() for name, tensor in state.items()}
    save_file(contiguous, folder / "model.safetensors", metadata={"format": "pt"})
