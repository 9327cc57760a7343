"""Configurations of tiny models, and the tensors that transformers itself would store for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from hfconvert.checks.architecture.check import Model, Outcome, check_architecture
from hfconvert.tensors.dtype import BY_TORCH
from hfconvert.tensors.lazy import TensorSpec

CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 32,
    },
    "gpt2": {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 4,
        "vocab_size": 32,
        "n_positions": 16,
    },
    "bert": {
        "architectures": ["BertForMaskedLM"],
        "model_type": "bert",
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 32,
    },
    "mixtral": {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_local_experts": 2,
        "vocab_size": 32,
    },
    "mamba2": {
        "architectures": ["Mamba2ForCausalLM"],
        "model_type": "mamba2",
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_heads": 4,
        "head_dim": 8,
        "state_size": 8,
        "n_groups": 1,
        "vocab_size": 32,
    },
}

Specs = dict[str, TensorSpec]


@pytest.fixture
def config() -> Callable[..., dict[str, Any]]:
    """The configuration of a tiny model, with changes."""
    return lambda name, **changes: {**CONFIGS[name], **changes}


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Specs]:
    """The specs of what save_pretrained writes for a configuration."""

    def save(config: Mapping[str, Any]) -> Specs:
        import transformers
        from safetensors import safe_open

        cls = getattr(transformers, config["architectures"][0])
        model = cls(cls.config_class.from_dict(dict(config)))
        model.save_pretrained(tmp_path / "saved")
        specs = {}
        with safe_open(tmp_path / "saved" / "model.safetensors", framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - no mapping
                tensor = file.get_tensor(name)
                specs[name] = spec(tensor)
        return specs

    return save


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Outcome]:
    """The outcome for a configuration and specs."""

    def run(config: Mapping[str, Any] | None, specs: Specs, **options: Any) -> Outcome:
        return check_architecture(Model(config=config, folder=tmp_path, **options), specs)

    return run


def spec(tensor: torch.Tensor) -> TensorSpec:
    """The spec of a tensor."""
    return TensorSpec(BY_TORCH[str(tensor.dtype).removeprefix("torch.")], tuple(tensor.shape))
