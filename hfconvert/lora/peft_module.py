"""PEFT's own arithmetic on one module: build it around its base tensors on the CPU, inject, load, merge.

torch and PEFT are imported when a merge needs them, never before.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hfconvert.errors import UserError, source_problem
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
_LOCK = (
    threading.Lock()
)  # PEFT and warnings have state of their own; and one module at a time bounds memory


def merge_module(
    base: Mapping[str, LazyTensor], layer: Layer, terms: Sequence[Term], *, native: bool
) -> dict[str, RawArray]:
    """The module's parameters after all the terms, in their order: float32, or as stored where `native`.

    UserError (exit 3) where PEFT refuses.
    """
    tensors = {name: _whole(tensor) for name, tensor in base.items()}
    with _LOCK, _quiet():
        try:
            return _merge(base, tensors, layer, terms, native=native)
        except (
            ValueError,
            RuntimeError,
            TypeError,
            KeyError,
            NotImplementedError,
            AttributeError,
        ) as error:
            raise UserError(_refused(terms, error)) from error


def _merge(
    base: Mapping[str, LazyTensor],
    tensors: Mapping[str, RawArray],
    layer: Layer,
    terms: Sequence[Term],
    *,
    native: bool,
) -> dict[str, RawArray]:
    import torch

    with torch.no_grad():
        values = {
            name: _to_torch(raw, base[name].spec.dtype.code, widen=not native)
            for name, raw in tensors.items()
        }
        module = _build(layer, values)
        merged = _merged(module, layer, terms, values)
        return {name: _to_numpy(tensor) for name, tensor in merged.items()}


def _merged(
    module: Any, layer: Layer, terms: Sequence[Term], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Inject and load every adapter, then merge them one after the other."""
    model = _loaded(module, layer, terms)
    tuned = model.base_model.model.get_submodule(terms[0].module)
    for number, term in enumerate(terms):
        _weigh(tuned, f"adapter_{number}", term)
        tuned.merge(adapter_names=[f"adapter_{number}"])
    inner = tuned.get_base_layer()
    return {name: getattr(inner, name).detach() for name in values}


def _loaded(module: Any, layer: Layer, terms: Sequence[Term]) -> Any:
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
    return model


def _build(layer: Layer, values: Mapping[str, Any]) -> Any:
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
        f"{front}.{parameter}": _to_torch(_whole(tensor), tensor.spec.dtype.code, widen=True)
        for parameter, tensor in term.tensors.items()
    }
    state |= {
        f"base_model.{parameter}": _to_torch(_whole(tensor), tensor.spec.dtype.code, widen=True)
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


def _weigh(tuned: Any, name: str, term: Term) -> None:
    if term.weight == 1:
        return
    scaling = getattr(tuned, "scaling", None)
    if not isinstance(scaling, dict) or name not in scaling:
        raise ValueError(f"a weight of {term.weight} has no meaning for {term.settings.peft_type}")
    scaling[name] = scaling[name] * term.weight


def _whole(tensor: LazyTensor) -> RawArray:
    raw = np.empty(tensor.extent, tensor.spec.dtype.raw)
    tensor.fill(raw, full(tensor.extent))
    return raw


def _to_torch(raw: RawArray, code: str, *, widen: bool) -> Any:
    import torch

    dtype = BY_CODE[code]
    signed = raw.view({1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[dtype.itemsize])
    tensor = torch.from_numpy(signed).view(getattr(torch, dtype.torch))
    narrow = widen and dtype.kind == "float" and dtype.code != "F64"
    return tensor.float() if narrow else tensor


def _to_numpy(tensor: Any) -> RawArray:
    import torch

    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[
        tensor.element_size()
    ]
    signed = tensor.contiguous().view(integers).numpy()
    raw: RawArray = signed.view(f"<u{signed.dtype.itemsize}")
    return raw


@contextmanager
def _quiet() -> Iterator[None]:
    """What PEFT warns of has been said or does not matter for one module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _refused(terms: Sequence[Term], error: Exception) -> Any:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return source_problem(
        f"PEFT cannot merge this module: {lines[0][:300]}",
        why="configuration and tensors of the adapter do not fit, or PEFT has no merge for such a module",
        do="fetch the adapter again, or keep base and adapter apart",
        subject=f"{terms[0].adapter}: {terms[0].module}",
        check="lora",
    )


def memory_of(base: Mapping[str, LazyTensor]) -> int:
    """Bytes that one merge holds: the module as stored, in float32, its update, and what PEFT makes of it."""
    elements = sum(math.prod(tensor.spec.shape) for tensor in base.values())
    return 5 * 4 * elements


def probe_module(
    base: Mapping[str, LazyTensor], layer: Layer, terms: Sequence[Term]
) -> dict[str, Any]:
    """The module's parameters by what it does to unit inputs, in float64, with nothing merged.

    Another way through PEFT than its merge: the forward pass of base and adapters side by side.
    """
    import torch

    tensors = {name: _whole(tensor) for name, tensor in base.items()}
    with _LOCK, _quiet(), torch.no_grad():
        values = {
            name: _to_torch(raw, base[name].spec.dtype.code, widen=False).double()
            for name, raw in tensors.items()
        }
        model = _loaded(_build(layer, values), layer, terms)
        model.double().eval()
        model.base_model.set_adapter([f"adapter_{number}" for number in range(len(terms))])
        tuned = model.base_model.model.get_submodule(terms[0].module)
        for number, term in enumerate(terms):
            _weigh(tuned, f"adapter_{number}", term)
        return {name: one.numpy() for name, one in _answers(tuned, layer, values).items()}


def _answers(tuned: Any, layer: Layer, values: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    shape = tuple(values["weight"].shape)
    if layer.kind == "embedding":
        return {"weight": tuned(torch.arange(shape[0]))}
    if layer.kind == "conv":
        inputs = math.prod(shape[1:])
        units = torch.eye(inputs, dtype=torch.float64).reshape(inputs, *shape[1:])
        nothing = torch.zeros(1, *shape[1:], dtype=torch.float64)
        bias = tuned(nothing).reshape(-1)
        weight = (tuned(units).reshape(inputs, -1) - bias).T.reshape(shape)
    else:
        width = shape[0] if layer.transposed else shape[1]
        bias = tuned(torch.zeros(1, width, dtype=torch.float64)).reshape(-1)
        weight = tuned(torch.eye(width, dtype=torch.float64)) - bias
        weight = weight if layer.transposed else weight.T
    return {"weight": weight, "bias": bias}
