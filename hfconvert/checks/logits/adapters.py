"""The reference of a merge: the source's model with its adapters beside it, by PEFT, unmerged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hfconvert.checks.logits.inputs import InputsError


def with_adapters(model: Any, adapters: Sequence[Mapping[str, Any]]) -> Any:
    """The model with all adapters active, each scaled by its weight. Adapters stay in float32.

    Each is `{"folder": ..., "weight": ...}`. InputsError where PEFT cannot weigh an adapter of that kind.
    """
    from peft import PeftModel

    names = [f"adapter{number}" for number in range(len(adapters))]
    first, *rest = adapters
    wrapped: Any = PeftModel.from_pretrained(model, first["folder"], adapter_name=names[0])
    for name, adapter in zip(names[1:], rest, strict=True):
        wrapped.load_adapter(adapter["folder"], adapter_name=name)
    wrapped.base_model.set_adapter(names)
    for name, adapter in zip(names, adapters, strict=True):
        if adapter["weight"] != 1.0:
            _weigh(wrapped, name, adapter["weight"])
    return wrapped.float().eval()


def _weigh(wrapped: Any, name: str, weight: float) -> None:
    """Scale the update of one adapter: `scaling` of its LoRA layers."""
    scales = [getattr(module, "scaling", None) for module in wrapped.modules()]
    layers = [scale for scale in scales if isinstance(scale, dict) and name in scale]
    if not layers:
        raise InputsError(f"an adapter with weight {weight} is of a kind that has no scale")
    for scale in layers:
        scale[name] *= weight
