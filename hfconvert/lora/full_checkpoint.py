"""Checkpoints of a model with its adapter in place: `base_layer` beside `lora_A`, under PEFT's prefixes."""

from __future__ import annotations

from collections.abc import Iterable

from hfconvert.lora.kinds import BASE_LAYER, is_adapted
from hfconvert.lora.naming import parse_names
from hfconvert.tensors.checkpoint import Checkpoint, Dropped, Entry

_ORIGINAL = ".original_module."
_SAVED = ".modules_to_save."
_RULE = "lora: the adapter's own, merged from there"


def own_names(names: Iterable[str]) -> list[str]:
    """Of a checkpoint that holds both, the names of the adapter."""
    keys = parse_names(names, "peft")
    return [name for name, key in keys.items() if is_adapted(key) or _SAVED in name]


def base_part(checkpoint: Checkpoint) -> Checkpoint:
    """Of a checkpoint that holds both, the base, under the names that it has without the adapter."""
    keys = parse_names(checkpoint, "peft")
    entries: dict[str, Entry] = {}
    dropped = []
    for name, entry in checkpoint.items():
        key = keys[name]
        if is_adapted(key) or _SAVED in name:
            dropped += [Dropped(source, _RULE) for source in entry.sources]
            continue
        module = key.module.replace(_ORIGINAL[:-1], "")
        parameter = key.parameter.removeprefix(BASE_LAYER)
        plain = f"{module}.{parameter}" if module else parameter
        plain = plain.replace(_ORIGINAL, ".")
        steps = entry.steps if plain == name else (*entry.steps, "base_layer")
        entries[plain] = Entry(entry.tensor, entry.sources, steps)
    return checkpoint.with_entries(entries, *dropped)
