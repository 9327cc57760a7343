"""What an adapter was trained with, as its configuration says."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hfconvert.tensors.lazy import LazyTensor

CONFIG = "adapter_config.json"
MAX_CONFIG = 16 << 20  # bytes


def adapter_facts(
    root: Path, folders: Iterable[str], tensors: Mapping[str, LazyTensor]
) -> dict[str, Any]:
    """Rank, alpha, targets and base of the adapter; null where no file records them.

    `config_present` says whether there is an `adapter_config.json`; without one the rank is that of the
    tensors, where they all have the same.
    """
    config = next((found for folder in folders if (found := _read(root / folder / CONFIG))), None)
    said = config or {}
    r = said.get("r") if isinstance(said.get("r"), int) else _rank(tensors)
    alpha = said.get("lora_alpha")
    alpha = alpha if isinstance(alpha, (int, float)) else None
    return {
        "r": r,
        "lora_alpha": alpha,
        "scale": _scale(r, alpha, rooted=bool(said.get("use_rslora"))),
        "target_modules": _targets(said.get("target_modules")),
        "base": said.get("base_model_name_or_path"),
        "variant": _variant(said, tensors),
        "config_present": config is not None,
    }


def _read(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > MAX_CONFIG:
            return None
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _scale(r: Any, alpha: float | None, *, rooted: bool) -> float | None:
    """alpha / r, or alpha / sqrt(r) with rsLoRA."""
    if alpha is None or not isinstance(r, int) or r < 1:
        return None
    return alpha / math.sqrt(r) if rooted else alpha / r


def _targets(said: Any) -> list[str] | str | None:
    if isinstance(said, str):
        return said
    return sorted(map(str, said)) if isinstance(said, list) else None


def _variant(said: Mapping[str, Any], tensors: Mapping[str, LazyTensor]) -> str | None:
    """PEFT's name of the method, with what changes LoRA: `LORA`, `LORA+dora`, `LORA+rslora`."""
    method = said.get("peft_type")
    if not isinstance(method, str):
        return "LORA" if any(".lora_" in name or "lora_up" in name for name in tensors) else None
    extras = [name for name in ("dora", "rslora") if said.get(f"use_{name}")]
    return "+".join((method, *extras))


def _rank(tensors: Mapping[str, LazyTensor]) -> int | None:
    """The rank that all the matrices of LoRA have: rows of A, or of `lora_down`."""
    ranks = {
        tensor.spec.shape[0]
        for name, tensor in tensors.items()
        if ("lora_A" in name or "lora_down" in name) and len(tensor.spec.shape) > 1
    }
    return ranks.pop() if len(ranks) == 1 else None
