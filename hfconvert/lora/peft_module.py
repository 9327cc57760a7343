"""PEFT's own arithmetic on one module: what its merge makes of it, and what its forward pass answers.

torch and PEFT are imported when a merge needs them, never before.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hfconvert.errors import UserError, source_problem
from hfconvert.lora.peft_model import build, load_adapters, read_whole, to_torch, weigh
from hfconvert.lora.terms import Layer, Term
from hfconvert.tensors.lazy import LazyTensor, RawArray

# PEFT and warnings have state of their own; and one module at a time bounds memory.
_LOCK = threading.Lock()
# Methods whose decomposition of the base PEFT makes in float32 at most; it is widened afterwards.
_DECOMPOSED_IN_FLOAT32 = frozenset({"PSOFT"})


def merge_module(
    base: Mapping[str, LazyTensor], layer: Layer, terms: Sequence[Term], *, native: bool
) -> dict[str, RawArray]:
    """The module's parameters after all the terms, in their order: float32, or as stored where `native`.

    UserError (exit 3) where PEFT refuses.
    """
    tensors = {name: read_whole(tensor) for name, tensor in base.items()}
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
            name: to_torch(raw, base[name].spec.dtype.code, widen=not native)
            for name, raw in tensors.items()
        }
        module = build(layer, values)
        merged = _merged(module, layer, terms, values)
        return {name: _to_numpy(tensor) for name, tensor in merged.items()}


def _merged(
    module: Any, layer: Layer, terms: Sequence[Term], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Inject and load every adapter, then merge them one after the other."""
    model = load_adapters(module, layer, terms)
    tuned = model.base_model.model.get_submodule(terms[0].module)
    for number, term in enumerate(terms):
        weigh(tuned, f"adapter_{number}", term)
        tuned.merge(adapter_names=[f"adapter_{number}"])
    inner = tuned.get_base_layer()
    return {name: getattr(inner, name).detach() for name in values}


def probe_module(
    base: Mapping[str, LazyTensor], layer: Layer, terms: Sequence[Term]
) -> dict[str, Any]:
    """The module's parameters by what it does to unit inputs, in float64, with nothing merged.

    Another way through PEFT than its merge: the forward pass of base and adapters side by side.
    """
    import torch

    tensors = {name: read_whole(tensor) for name, tensor in base.items()}
    with _LOCK, _quiet(), torch.no_grad():
        values = {
            name: to_torch(raw, base[name].spec.dtype.code, widen=True)
            for name, raw in tensors.items()
        }
        if not any(term.settings.peft_type in _DECOMPOSED_IN_FLOAT32 for term in terms):
            values = {name: tensor.double() for name, tensor in values.items()}
        model = load_adapters(build(layer, values), layer, terms)
        model.double()
        model.base_model.set_adapter([f"adapter_{number}" for number in range(len(terms))])
        tuned = model.base_model.model.get_submodule(terms[0].module)
        for number, term in enumerate(terms):
            weigh(tuned, f"adapter_{number}", term)
        return {name: one.numpy() for name, one in answers(tuned, layer, values).items()}


def probe_within(model: Any, module: str) -> dict[str, Any]:
    """The same of a module of a whole model in float64, whose adapters are active."""
    import torch
    from torch import nn

    tuned = model.base_model.model.get_submodule(module)
    inner = tuned.get_base_layer()
    values = {name: one for name, one in inner.named_parameters() if one is not None}
    embedding = isinstance(inner, nn.Embedding)
    transposed = type(inner).__name__ == "Conv1D"  # of transformers
    layer = Layer("embedding" if embedding else "linear", tuple(values), transposed=transposed)
    with torch.no_grad():
        return {name: one.numpy() for name, one in answers(tuned, layer, values).items()}


def answers(tuned: Any, layer: Layer, values: Mapping[str, Any]) -> dict[str, Any]:
    """Weight and bias of a float64 module as its forward pass has them; `values` are its parameters."""
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


def memory_of(base: Mapping[str, LazyTensor]) -> int:
    """Bytes that one merge holds: the module as stored, in float32, its update, and what PEFT makes of it."""
    elements = sum(math.prod(tensor.spec.shape) for tensor in base.values())
    return 5 * 4 * elements


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
