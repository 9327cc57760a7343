"""What a training checkpoint tells beside its weights, as plain JSON of bounded size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from hfconvert.pickles.values import (
    ArrayRef,
    Global,
    Group,
    Plain,
    Span,
    StorageRef,
    Stub,
    TensorRef,
)
from hfconvert.readers.torch_walk import entries, is_module

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

MAX_DEPTH = 10
MAX_VALUES = 4000
MAX_ITEMS = 200
MAX_TEXT = 500

_STEPS = (
    "epoch",
    "step",
    "global_step",
    "iteration",
    "iterations",
    "steps",
    "best_score",
    "checkpoint_version",
)
_SETTINGS = (
    *("hyper_parameters", "hparams", "args", "config", "cfg", "opt", "options", "ds_config"),
    *(
        "pytorch-lightning_version",
        "hparams_name",
        "version",
        "arch",
        "classes",
        "train_args",
        "date",
    ),
)


def facts(tree: Any) -> dict[str, JSON]:
    """Counters, settings and other small values at the top of a file, by their own names.

    `framework` is `lightning` where the file says so. Values that are long or deep are cut off.
    """
    state = tree.state if isinstance(tree, (Stub, Plain)) and not is_module(tree) else None
    inner = state.items() if isinstance(state, Mapping) else entries(tree)
    if inner is None or is_module(tree):
        return {}
    budget = _Budget(MAX_VALUES)
    found: dict[str, JSON] = {}
    for key, value in inner:
        if type(key) is str and (key in _STEPS or key in _SETTINGS or _is_small(value)):
            found[key[:MAX_TEXT]] = plain_json(value, budget)
        if len(found) >= MAX_ITEMS:
            break
    if "pytorch-lightning_version" in found:
        found["framework"] = "lightning"
    return found


class _Budget:
    """How many values may still be shown."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


def plain_json(value: Any, budget: _Budget | None = None, depth: int = MAX_DEPTH) -> JSON:
    """The value as JSON: objects of any class by their state, data by its size; cut off at the bounds."""
    budget = budget or _Budget(MAX_VALUES)
    budget.left -= 1
    if budget.left < 0 or depth < 0:
        return "..."
    if value is None or isinstance(value, (bool, int, float, str)):
        return _scalar(value)
    if isinstance(value, dict):
        return _mapping(value.items(), budget, depth)
    if isinstance(value, (list, tuple, Group)):
        items = value.items if isinstance(value, Group) else value
        return [plain_json(item, budget, depth - 1) for item in items[:MAX_ITEMS]]
    if isinstance(value, (Stub, Plain)):
        return _object(value, budget, depth)
    return _described(value)


def _scalar(value: bool | float | str | None) -> JSON:
    if isinstance(value, str):
        text = value.encode("utf-8", "backslashreplace").decode()
        return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "..."
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _mapping(items: Iterable[tuple[Any, Any]], budget: _Budget, depth: int) -> JSON:
    shown: dict[str, JSON] = {}
    for key, value in items:
        if len(shown) >= MAX_ITEMS:
            shown["..."] = "..."
            break
        name = _scalar(key if type(key) is str else _described(key))
        shown[str(name)] = plain_json(value, budget, depth - 1)
    return shown


def _object(value: Stub | Plain, budget: _Budget, depth: int) -> JSON:
    """An object of a class: what it holds. omegaconf keeps its content under names of its own."""
    state = value.state
    if isinstance(state, Mapping):
        own = next((name for name in ("_content", "_val") if name in state), None)
        if own is not None:
            return plain_json(state[own], budget, depth - 1)
        return _mapping(state.items(), budget, depth)
    if isinstance(value, Plain):
        return _plain(value)
    if value.items or value.appended:
        held = _mapping(value.items, budget, depth) if value.items else value.appended
        return plain_json(held, budget, depth - 1)
    return (
        plain_json(value.args[0], budget, depth - 1) if len(value.args) == 1 else _described(value)
    )


def _plain(value: Plain) -> str:
    parts = [
        str(part)[:MAX_TEXT]
        for part in value.args[:MAX_DEPTH]
        if isinstance(part, (str, int, float))
    ]
    if value.kind.startswith("pathlib"):
        return "/".join(parts).replace("//", "/")[:MAX_TEXT]
    return f"{value.kind}({', '.join(parts)})"[:MAX_TEXT]


def _described(value: Any) -> str:
    if isinstance(value, (TensorRef, ArrayRef)):
        return f"tensor {list(value.shape)[:MAX_DEPTH]}" if type(value.shape) is tuple else "tensor"
    if isinstance(value, (Span, StorageRef, bytes)):
        return f"{_size(value)} bytes"
    if isinstance(value, Stub):
        return f"object of {value.name}"[:MAX_TEXT]
    if isinstance(value, Plain):
        return value.kind
    return (
        str(value)[:MAX_TEXT]
        if isinstance(value, (Global, int, float, complex))
        else type(value).__name__
    )


def _size(value: Span | StorageRef | bytes) -> int:
    if isinstance(value, bytes):
        return len(value)
    return value.size if isinstance(value, Span) else value.nbytes


def _is_small(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, Global))
