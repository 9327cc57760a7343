"""The reference of a merge: the source's model with its adapters beside it, by PEFT, unmerged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hfconvert.checks.logits.inputs import InputsError


def with_adapters(model: Any, adapters: Sequence[Mapping[str, Any]]) -> Any:
    """The model with all adapters active, each scaled by its weight. Adapters stay in float32.

    Each is `{"folder": ..., "weight": ..., "config": ...}`, the last null where the folder has its own.
    InputsError where PEFT cannot read an adapter, or cannot weigh one of that kind.
    """
    from peft import PeftModel

    names = [f"adapter{number}" for number in range(len(adapters))]
    first, *rest = adapters
    wrapped: Any = PeftModel.from_pretrained(
        model, first["folder"], adapter_name=names[0], config=_config(first)
    )
    for name, adapter in zip(names[1:], rest, strict=True):
        wrapped.load_adapter(adapter["folder"], adapter_name=name, peft_config=_config(adapter))
    wrapped.base_model.set_adapter(names)
    for name, adapter in zip(names, adapters, strict=True):
        if adapter["weight"] != 1.0:
            _weigh(wrapped, name, adapter["weight"])
    return wrapped.float().eval()


def _config(adapter: Mapping[str, Any]) -> Any:
    """The configuration that was lost, as PEFT's; None where the folder has its own."""
    from peft import PeftConfig

    if adapter.get("config") is None:
        return None
    if not any(Path(adapter["folder"]).glob("adapter_model.*")):
        raise InputsError("an adapter is stored as PEFT does not read it")
    return PeftConfig.from_peft_type(**adapter["config"], inference_mode=True)


def _weigh(wrapped: Any, name: str, weight: float) -> None:
    """Scale the update of one adapter: `scaling` of its LoRA layers."""
    scales = [getattr(module, "scaling", None) for module in wrapped.modules()]
    layers = [scale for scale in scales if isinstance(scale, dict) and name in scale]
    if not layers:
        raise InputsError(f"an adapter with weight {weight} is of a kind that has no scale")
    for scale in layers:
        scale[name] *= weight
