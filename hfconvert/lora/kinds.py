"""What a checkpoint is, by its names alone: a model, an adapter, or a model with its adapter in place."""

from __future__ import annotations

from collections.abc import Iterable

from hfconvert.lora.embeddings import HEAD, INPUT
from hfconvert.lora.kohya import is_kohya
from hfconvert.lora.methods import PARAMETERS
from hfconvert.lora.naming import Key, naming_of, parse_names

BASE_LAYER = "base_layer."


def is_adapter(names: Iterable[str]) -> bool:
    """Whether these are the tensors of an adapter, and not of a model or of both."""
    known = list(names)
    if is_kohya(known):
        return True
    keys = parse_names(known, naming_of(known)).values()
    adapted = sum(is_adapted(key) for key in keys)
    return adapted * 2 > len(known) and not holds_both(known)


def holds_both(names: Iterable[str]) -> bool:
    """Whether these are base and adapter together: each module that is adapted has its base layer there.

    An adapter by itself may hold the base of embeddings and heads, of nothing else.
    """
    known = list(names)
    keys = parse_names(known, "peft")
    adapted = {key.module for key in keys.values() if is_adapted(key)}
    based = {key.module for key in keys.values() if key.parameter == f"{BASE_LAYER}weight"}
    inner = [
        name
        for name in adapted
        if name and not (INPUT.search(f"{name}.weight") or HEAD.search(f"{name}.weight"))
    ]
    return bool(inner) and adapted - {""} <= based


def is_adapted(key: Key) -> bool:
    """Whether a name is that of a parameter that a method of PEFT adds to a module."""
    return any(part in PARAMETERS for part in key.parameter.split("."))
