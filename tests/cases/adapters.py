"""ADP(targets): adapters of PEFT on the models of these cases, and what comes of merging them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

State = dict[str, torch.Tensor]
Convert = Callable[..., Any]
Store = Callable[..., Path]
Adapt = Callable[..., Path]

R, ALPHA = 4, 8
SCALE = ALPHA / R
ON_Q = [f"model.layers.{layer}.self_attn.q_proj" for layer in range(2)]


def factors(
    modules: list[str], state: State, *, r: int = R, front: str = "base_model.model."
) -> State:
    """A and B for modules of a model, drawn so that every value of the update counts."""
    generator = torch.Generator().manual_seed(11)
    found: State = {}
    for module in modules:
        out, inputs = state[f"{module}.weight"].shape
        found[f"{front}{module}.lora_A.weight"] = torch.randn(r, inputs, generator=generator)
        found[f"{front}{module}.lora_B.weight"] = torch.randn(out, r, generator=generator)
    return found


def merged(state: State, adapter: State, scale: float = SCALE) -> State:
    """What comes of adding B A, by the names of the factors."""
    result = dict(state)
    for name, b in adapter.items():
        if name.endswith(".lora_B.weight"):
            module = name.removeprefix("base_model.model.").removesuffix(".lora_B.weight")
            a = adapter[name.replace("lora_B", "lora_A")].float()
            result[f"{module}.weight"] = result[f"{module}.weight"] + (b.float() @ a) * scale
    return result


def lora(*adapters: Path | dict[str, Any], **fields: Any) -> dict[str, Any]:
    given = [one if isinstance(one, dict) else {"adapter": str(one)} for one in adapters]
    return {"adapters": given, **fields}
