"""What the whole is: a model, a training checkpoint, an adapter, quantised, several of these, or unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from hfconvert.inspect.training import is_training
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.unreadable import Quantized, Unreadable

Kind = Literal["model", "training", "adapter", "quantized", "mixed", "unknown"]

# Parts of names that only adapters have: of PEFT's methods, of kohya's, LyCORIS' and diffusers' files.
_ADAPTER = re.compile(
    r"(^|[._])(lora_[A-Z]|lora_(up|down|embedding)|lora\.(up|down)|hada_w[12]|lokr_w[12]|oft_\w+|boft_\w+|"
    r"ia3_l|vera_lambda|lora_magnitude_vector|prompt_embeddings|trainable_tokens_delta|fourierft_|ln_tuning_)"
)
_WRAPPED = "base_model.model."  # how every name of a PEFT file begins
# What adapter files hold beside those.
_WITH_ADAPTERS = re.compile(r"(modules_to_save|\.alpha$|dora_scale$|\.diff(_b)?$)")
# Endings of names that quantisers write: GPTQ, AWQ, bitsandbytes, fp8 and compressed-tensors, torch.ao.
_QUANTIZED = re.compile(
    r"\.(qweight|qzeros|SCB|absmax|quant_map|quant_state\.\w+|weight_scale(_inv)?|weight_packed|"
    r"weight_zero_point|_packed_params\._packed_params|_packed_params\.dtype|weight_format)$"
)


def kind_of(
    tensors: Mapping[str, LazyTensor],
    training: Mapping[str, Any] | None,
    config: Mapping[str, Any] | None,
) -> Kind:
    """The kind of a source, by the weights that it holds, what is known of its run, its configuration."""
    if not tensors:
        return "training" if is_training(training) else "unknown"
    adapter = sum(map(_is_adapter, tensors))
    if adapter:
        return "adapter" if adapter == len(tensors) else "mixed"
    if _is_quantized(tensors, config):
        return "quantized"
    return "training" if is_training(training) else "model"


def _is_adapter(name: str) -> bool:
    if ".base_layer." in name:
        return False
    return bool(name.startswith(_WRAPPED) or _ADAPTER.search(name) or _WITH_ADAPTERS.search(name))


def _is_quantized(tensors: Mapping[str, LazyTensor], config: Mapping[str, Any] | None) -> bool:
    if config and isinstance(config.get("quantization_config"), dict):
        return True
    return any(map(_QUANTIZED.search, tensors)) or any(map(_holds_packed, tensors.values()))


def _holds_packed(tensor: LazyTensor) -> bool:
    if isinstance(tensor, Unreadable) and isinstance(tensor.detail, Quantized):
        return True
    return tensor.spec.dtype.kind == "packed" and tensor.spec.dtype.code != "unknown"
