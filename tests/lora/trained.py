"""Adapters that PEFT makes here and now, with weights that are drawn, and what it merges them to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

State = dict[str, torch.Tensor]


def train(base: Path, folder: Path, config: str, **fields: Any) -> None:
    """An adapter with a configuration of this class, for a causal language model."""
    import peft
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    inner = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    draw(peft.get_peft_model(inner, getattr(peft, config)(**fields)), folder)


def draw(model: Any, folder: Path, seed: int = 1) -> None:
    """Move every trained parameter of PEFT's model by noise, and save the adapter."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += torch.randn(parameter.shape, generator=generator) * 0.05
    model.save_pretrained(folder)


def by_peft(base: Path, dtype: torch.dtype, *adapters: Path) -> State:
    """What PEFT merges them to, in their order; tensors are named as the model has them."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    inner = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    names = [f"adapter_{number}" for number in range(len(adapters))]
    model: Any = PeftModel.from_pretrained(inner, adapters[0], adapter_name=names[0])
    for name, path in zip(names[1:], adapters[1:], strict=True):
        model.load_adapter(path, adapter_name=name)
    merged: State = model.merge_and_unload(adapter_names=names).state_dict()
    return merged
