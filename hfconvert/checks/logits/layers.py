"""A model that does not fit into memory, run a layer at a time.

The class is built without memory. The parameters of a layer, of a large embedding or of a large head are
read when it is about to run and given back when it has; all others are read at once. Weights come through
hfconvert's own readers, in float32.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hfconvert.checks.architecture.model import Rename, model_class, names_of
from hfconvert.checks.rounding import LAYOUTS, rounded
from hfconvert.memory import available_memory_bytes
from hfconvert.readers.load import Wanted, load
from hfconvert.tensors.box import full
from hfconvert.tensors.lazy import LazyTensor

# Loading takes the model itself, the file it comes from where that is mapped, and what a forward needs.
HEADROOM = 1.6
BYTES = 4  # of a float32
LARGE = 4 << 20  # elements: embeddings and heads above this come and go like layers


class TooLargeError(Exception):
    """The model fits neither whole nor a layer at a time."""


@dataclass(frozen=True, slots=True)
class Source:
    """The weights of a folder, not read yet, and the memory that they may take."""

    cls: Any
    config: Any
    tensors: Mapping[str, LazyTensor]
    limit: int

    @property
    def nbytes(self) -> int:
        """Bytes of all of them in float32."""
        return BYTES * sum(tensor.spec.elements for tensor in self.tensors.values())

    @property
    def too_large(self) -> bool:
        """Whether the model cannot be held whole."""
        return self.nbytes * HEADROOM > self.limit

    @property
    def why(self) -> str:
        """The figures."""
        return f"in float32 the model takes {self.nbytes} bytes, {self.limit} are free"


def open_source(cls: Any, folder: Path, request: Mapping[str, Any]) -> Source:
    """The weights of a folder; only headers are read."""
    found = load(folder, Wanted(compare_twin=False, refuse_dangerous=False))
    tensors = {name: entry.tensor for name, entry in found.checkpoint.items()}
    _, config = model_class(_config(folder, request), folder, custom=request["custom"])
    return Source(cls, config, tensors, request["memory"] or available_memory_bytes())


def layered(source: Source) -> tuple[Any, list[str]]:
    """The model, with hooks that bring each layer in and out, and the names that its weights lack.

    TooLargeError where even that is too much.
    """
    import torch
    from accelerate import init_empty_weights  # type: ignore[import-untyped]  # it has no types

    with init_empty_weights(include_buffers=False):
        model = source.cls(source.config)
    model = model.to(torch.float32).eval()
    places = _places(source, names_of(model).rename, model)
    blocks = dict(_blocks(model))
    inside = {name: block for block in blocks for name in _own(model, block)}
    if _largest(model, inside) * BYTES * HEADROOM > source.limit:
        raise TooLargeError(f"{source.why}, and a layer at a time is too much as well")
    missing = [name for name in model.state_dict() if name not in places]
    _fill(model, [name for name in places if name not in inside], places)
    for prefix, block in blocks.items():
        _stream(model, block, [name for name in places if inside.get(name) == prefix], places)
    return model, missing


def _config(folder: Path, request: Mapping[str, Any]) -> Mapping[str, Any]:
    path = folder / "config.json"
    config: Mapping[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    return config if config.get("architectures") else request["config"]


def _places(source: Source, rename: Rename, model: Any) -> dict[str, LazyTensor]:
    """The tensor of every name of the module. TooLargeError where tensors have to be fused for it."""
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    places: dict[str, LazyTensor] = {}
    for name, tensor in source.tensors.items():
        target = name if name in shapes else rename(name)
        if target not in shapes:
            continue
        if target in places or tensor.spec.shape != shapes[target]:
            raise TooLargeError(f"{source.why}, and its layers are stored in another form ({name})")
        places[target] = tensor
    for one, other in (getattr(model, "all_tied_weights_keys", None) or {}).items():
        for target, origin in ((one, other), (other, one)):
            if target not in places and origin in places:
                places[target] = places[origin]
    return places


def _blocks(model: Any) -> Iterator[tuple[str, Any]]:
    """The items of the outermost lists of modules, and large embeddings and heads beside them."""
    import torch

    outer: list[str] = []
    single = (torch.nn.Embedding, torch.nn.Linear)
    for name, module in model.named_modules():
        if name.startswith(tuple(outer)):
            continue
        if isinstance(module, torch.nn.ModuleList):
            outer.append(f"{name}.")
            yield from ((f"{name}.{number}", item) for number, item in enumerate(module))
        elif isinstance(module, single) and module.weight.numel() > LARGE:
            yield name, module


def _own(model: Any, prefix: str) -> list[str]:
    return [name for name in model.state_dict() if name.startswith(f"{prefix}.")]


def _largest(model: Any, inside: Mapping[str, str]) -> int:
    """Elements that are held at most: those outside of layers, and the largest layer."""
    sizes: dict[str, int] = {
        name: prod(tensor.shape) for name, tensor in model.state_dict().items()
    }
    layers: dict[str, int] = {}
    for name, block in inside.items():
        layers[block] = layers.get(block, 0) + sizes[name]
    outside = sum(size for name, size in sizes.items() if name not in inside)
    return outside + max(layers.values(), default=0)


def _fill(model: Any, names: list[str], places: Mapping[str, LazyTensor]) -> None:
    for name in names:
        _put(model, name, _values(places[name]))


def _stream(model: Any, block: Any, names: list[str], places: Mapping[str, LazyTensor]) -> None:
    """Hooks that read the block before it runs, and leave nothing of it after."""

    def bring(_module: Any, _arguments: Any) -> None:
        _fill(model, names, places)

    def drop(_module: Any, _arguments: Any, _result: Any) -> None:
        for name in names:
            _put(model, name, None)

    block.register_forward_pre_hook(bring)
    block.register_forward_hook(drop)


def _put(model: Any, name: str, values: Any) -> None:
    """Set one parameter or buffer; None leaves its shape without memory."""
    import torch

    path, _, last = name.rpartition(".")
    module = model.get_submodule(path)
    before = getattr(module, last)
    value = torch.empty_like(before, device="meta") if values is None else values
    if last in module._parameters:  # noqa: SLF001 - torch's own way to set a parameter in place of another
        module._parameters[last] = torch.nn.Parameter(value, requires_grad=False)  # noqa: SLF001 - same
    else:
        module._buffers[last] = value  # noqa: SLF001 - torch's own way to set a buffer


def _values(tensor: LazyTensor) -> Any:
    """The values as torch holds them: floating types in float32."""
    import torch

    raw = np.empty(tensor.extent, tensor.spec.dtype.raw)
    tensor.fill(raw, full(tensor.extent))
    layout = LAYOUTS.get(tensor.spec.dtype.code)
    if layout is None:
        return torch.from_numpy(raw).view(getattr(torch, tensor.spec.dtype.torch))
    if tensor.spec.dtype.code == "BF16":  # by torch, which is quicker
        return torch.from_numpy(raw).view(torch.bfloat16).float()
    wide = raw if tensor.spec.dtype.code == "F32" else rounded(raw, layout, LAYOUTS["F32"])
    return torch.from_numpy(np.ascontiguousarray(wide).view(np.float32))
