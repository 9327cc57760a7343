"""A LoRA on the linear layers of a model, made, saved and merged by PEFT."""

from __future__ import annotations

import contextlib
import copy
from pathlib import Path
from typing import Any

import torch

from tests.zoo.classes import NotBuiltError

RANK = 4


def adapted(model: Any, folder: Path) -> Any:
    """Save an adapter of rank 4 with seeded factors for `model`; the model with it merged by PEFT.

    Linear layers that are tied become layers of their own first: PEFT adds the update of one end to both.
    NotBuiltError where PEFT finds no linear layer, or cannot take an adapter into such a model.
    """
    _untie(model)
    with_adapter = _with_adapter(model)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, parameter in with_adapter.named_parameters():
            if ".lora_" in name:
                parameter.uniform_(-0.1, 0.1, generator=generator)
    try:
        with_adapter.save_pretrained(folder)
    except NotImplementedError:  # it looks for embeddings, which this class cannot name
        with_adapter.save_pretrained(folder, save_embedding_layers=False)
    return with_adapter.merge_and_unload()


def _untie(model: Any) -> None:
    for name in getattr(model, "all_tied_weights_keys", {}):
        module = model.get_submodule(name.rpartition(".")[0])
        if isinstance(module, torch.nn.Linear) and name.endswith(".weight"):
            module.weight = torch.nn.Parameter(module.weight.detach().clone())


def _with_adapter(model: Any) -> Any:
    """A copy of the model with the adapter that PEFT takes: on all that it calls linear, else by names.

    By names there is no `out_proj`, which PEFT refuses in models with state space layers.
    """
    linear = [name for name, one in model.named_modules() if isinstance(one, torch.nn.Linear)]
    if not linear:
        raise NotBuiltError("it has no linear layers")
    try:
        return _taken(model, "all-linear")
    except Exception:  # noqa: BLE001 - PEFT and models raise anything
        with contextlib.suppress(Exception):
            return _taken(model, [name for name in linear if not name.endswith("out_proj")])
        raise NotBuiltError("PEFT cannot take an adapter into its class") from None


def _taken(model: Any, targets: str | list[str]) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=targets)
    return get_peft_model(copy.deepcopy(model), config)
