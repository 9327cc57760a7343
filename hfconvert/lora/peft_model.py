"""PEFT's model of one module: built around its tensors on the CPU, with its adapters injected and loaded.

torch and PEFT are imported when a merge needs them, never before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hfconvert.lora.terms import Layer, Term
from hfconvert.tensors.box import full
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import LazyTensor, RawArray

# Fields that would take other modules in, or that only training or loading need.
_NAMES = (
    "auto_mapping base_model_name_or_path revision task_type runtime_config modules_to_save "
    "target_parameters trainable_token_indices layers_to_transform layers_pattern exclude_modules "
    "megatron_config layer_replication eva_config enable_lora merge_weights ensure_weight_tying"
)
_LEFT_OUT = frozenset(_NAMES.split())


def load_adapters(module: Any, layer: Layer, terms: Sequence[Term]) -> Any:
    """PEFT's model of the one module, with all the adapters."""
    from peft import PeftModel

    root = _around(module, terms[0].module, layer)
    model: Any = None
    for number, term in enumerate(terms):
        name, config = f"adapter_{number}", _config(term, layer)
        if model is None:
            model = PeftModel(root, config, adapter_name=name)
        else:
            model.add_adapter(name, config)
        _load(model, name, term)
    return model.eval()


def build(layer: Layer, values: Mapping[str, Any]) -> Any:
    """The module that transformers would have, with these parameters."""
    import torch
    from torch import nn

    shape = tuple(values["weight"].shape)
    bias = "bias" in values
    with torch.device("meta"):
        if layer.kind == "embedding":
            module: Any = nn.Embedding(*shape)
        elif layer.kind == "conv":
            kind: Any = {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}[len(shape)]
            module = kind(shape[1], shape[0], shape[2:], bias=bias)
        elif layer.transposed:
            from transformers.pytorch_utils import Conv1D

            module = Conv1D(shape[1], shape[0])
            if not bias:
                module.bias = None
        else:
            module = nn.Linear(shape[1], shape[0], bias=bias)
    for name, tensor in values.items():
        setattr(module, name, nn.Parameter(tensor, requires_grad=False))
    return module


def _around(module: Any, path: str, layer: Layer) -> Any:
    """Plain modules around it, so that its name is the whole path: patterns of PEFT look at that."""
    from torch import nn

    root = nn.Module()
    parent = root
    *parts, last = path.split(".")
    for part in parts:
        child = nn.Module()
        parent.add_module(part, child)
        parent = child
    parent.add_module(last, module)
    if (
        layer.largest is not None
    ):  # VeRA's projections have the size of the largest module of the model
        out_features, in_features = layer.largest
        root.add_module(_LARGEST, nn.Linear(in_features, out_features, bias=False))
    return root


_LARGEST = "largest_of_the_model"


def _config(term: Term, layer: Layer) -> Any:
    """The adapter's configuration for this one module."""
    from peft import PeftConfig

    values = {
        name: value
        for name, value in term.settings.values.items()
        if name not in _LEFT_OUT and name in term.settings.method.fields and value is not None
    }
    targets = [term.module] + ([_LARGEST] if layer.largest is not None else [])
    values |= {
        "peft_type": term.settings.peft_type,
        "target_modules": targets,
        "inference_mode": True,
    }
    if values.get("bias", "none") != "none":
        values["bias"] = "none"
    if "feedforward_modules" in values:
        values["feedforward_modules"] = [term.module] if layer.feedforward else []
    if term.settings.peft_type == "ADALORA":
        patterns = values.pop("rank_pattern", None) or {}
        own = {key: one for key, one in patterns.items() if f"{term.module}.lora_E" in key}
        values["rank_pattern"] = {f"{term.module}.lora_E": one for one in own.values()} or None
    values |= {**_numbers(term), **term.overrides}
    return PeftConfig.from_peft_type(**values)


def _numbers(term: Term) -> dict[str, Any]:
    """Rank and alpha of this module, where the file itself records them."""
    if not term.recorded:
        return {}
    alpha = "lora_alpha" if term.settings.peft_type == "LORA" else "alpha"
    return {"r": term.r, alpha: term.alpha, "rank_pattern": {}, "alpha_pattern": {}}


def _load(model: Any, name: str, term: Term) -> None:
    from peft import set_peft_model_state_dict

    front = f"base_model.model.{term.module}"
    state = {
        f"{front}.{parameter}": to_torch(read_whole(tensor), tensor.spec.dtype.code, widen=True)
        for parameter, tensor in term.tensors.items()
    }
    state |= {
        f"base_model.{parameter}": to_torch(read_whole(tensor), tensor.spec.dtype.code, widen=True)
        for parameter, tensor in term.shared.items()
    }
    loaded: Any = set_peft_model_state_dict(model, state, adapter_name=name)
    if loaded.unexpected_keys:
        raise ValueError(f"PEFT finds no place for {', '.join(loaded.unexpected_keys)}")
    absent = [key for key in loaded.missing_keys if _is_wanted(key, front, name, term)]
    if absent:
        raise ValueError(f"PEFT misses {', '.join(absent)}")


def _is_wanted(key: str, front: str, name: str, term: Term) -> bool:
    """Whether PEFT misses a trained parameter of the module; what is shared or counted is none."""
    head = key.removeprefix(f"{front}.").partition(".")[0]
    trained = head in term.settings.method.parameters and head != "ranknum"
    return trained and key.startswith(front) and f".{name}" in key


def weigh(tuned: Any, name: str, term: Term) -> None:
    """Scale an adapter of a module by the term's weight. ValueError where its method has no scale."""
    if term.weight == 1:
        return
    scaling = getattr(tuned, "scaling", None)
    if not isinstance(scaling, dict) or name not in scaling:
        raise ValueError(f"a weight of {term.weight} has no meaning for {term.settings.peft_type}")
    scaling[name] = scaling[name] * term.weight


def read_whole(tensor: LazyTensor) -> RawArray:
    """All the values of a tensor, as raw integers."""
    raw = np.empty(tensor.extent, tensor.spec.dtype.raw)
    tensor.fill(raw, full(tensor.extent))
    return raw


def to_torch(raw: RawArray, code: str, *, widen: bool) -> Any:
    """Raw values of a dtype (safetensors' code) as a torch tensor; `widen` makes floats of 32 bits."""
    import torch

    dtype = BY_CODE[code]
    signed = raw.view({1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[dtype.itemsize])
    tensor = torch.from_numpy(signed).view(getattr(torch, dtype.torch))
    narrow = widen and dtype.kind == "float" and dtype.code != "F64"
    return tensor.float() if narrow else tensor
