"""Checkpoints of a model with its adapter in place: `base_layer` beside `lora_A`, under PEFT's prefixes."""

from __future__ import annotations

from collections.abc import Iterable

from hfconvert.lora.embeddings import HEAD, INPUT
from hfconvert.lora.methods import PARAMETERS
from hfconvert.lora.naming import Key, parse_names
from hfconvert.tensors.checkpoint import Checkpoint, Dropped, Entry

_LAYER = "base_layer."
_ORIGINAL = ".original_module."
_SAVED = ".modules_to_save."
_RULE = "lora: the adapter's own, merged from there"


def holds_both(names: Iterable[str]) -> bool:
    """Whether these are base and adapter together: each module that is adapted has its base layer there.

    An adapter by itself may hold the base of embeddings and heads, of nothing else.
    """
    known = list(names)
    keys = parse_names(known, "peft")
    adapted = {key.module for key in keys.values() if _is_adapter(key)}
    based = {key.module for key in keys.values() if key.parameter == f"{_LAYER}weight"}
    inner = [
        name
        for name in adapted
        if name and not (INPUT.search(f"{name}.weight") or HEAD.search(f"{name}.weight"))
    ]
    return bool(inner) and adapted - {""} <= based


def own_names(names: Iterable[str]) -> list[str]:
    """Of a checkpoint that holds both, the names of the adapter."""
    keys = parse_names(names, "peft")
    return [name for name, key in keys.items() if _is_adapter(key) or _SAVED in name]


def base_part(checkpoint: Checkpoint) -> Checkpoint:
    """Of a checkpoint that holds both, the base, under the names that it has without the adapter."""
    keys = parse_names(checkpoint, "peft")
    entries: dict[str, Entry] = {}
    dropped = []
    for name, entry in checkpoint.items():
        key = keys[name]
        if _is_adapter(key) or _SAVED in name:
            dropped += [Dropped(source, _RULE) for source in entry.sources]
            continue
        module = key.module.replace(_ORIGINAL[:-1], "")
        parameter = key.parameter.removeprefix(_LAYER)
        plain = f"{module}.{parameter}" if module else parameter
        plain = plain.replace(_ORIGINAL, ".")
        steps = entry.steps if plain == name else (*entry.steps, "base_layer")
        entries[plain] = Entry(entry.tensor, entry.sources, steps)
    return checkpoint.with_entries(entries, *dropped)


def _is_adapter(key: Key) -> bool:
    return any(part in PARAMETERS for part in key.parameter.split("."))
