"""Names of kohya's scripts and of LyCORIS: the dots of module names are underscores there.

Sources: `networks/lora.py` of sd-scripts, the modules of LyCORIS 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from hfconvert.lora.adapter import Part
from hfconvert.lora.naming import Key

_FRONT = re.compile(r"(?:lora|lycoris|oft|ia3)_(?P<part>unet|te\d?|transformer|prior)_(?P<rest>.+)")
_COMPONENTS = {
    "unet": "unet",
    "te": "text_encoder",
    "te1": "text_encoder",
    "te2": "text_encoder_2",
    "te3": "text_encoder_3",
    "transformer": "transformer",
    "prior": "prior",
}
_PARAMETERS = {
    "lora_down.weight": "lora_A.weight",
    "lora_up.weight": "lora_B.weight",
    "lora_A.weight": "lora_A.weight",
    "lora_B.weight": "lora_B.weight",
}
# What a flattened name may lack in front, or have too much, against the base's own names.
_FRONTS = ("", "text_model.", "model.", "model.diffusion_model.", "transformer.")


def is_kohya(names: Iterable[str]) -> bool:
    """Whether all names are of this kind."""
    known = list(names)
    return bool(known) and all(_FRONT.match(name.partition(".")[0]) for name in known)


def parse_kohya(names: Iterable[str]) -> dict[str, Key]:
    """Every name with its flattened module, the parameter as PEFT calls it, and the part of the pipeline."""
    keys = {}
    for name in names:
        front, _, parameter = name.partition(".")
        found = _FRONT.match(front)
        module, part = (found["rest"], found["part"]) if found else (front, "")
        keys[name] = Key(module, _PARAMETERS.get(parameter, parameter), _COMPONENTS.get(part, ""))
    return keys


def unflatten(parts: Iterable[Part], modules: Iterable[str]) -> list[Part]:
    """Parts under the base's names of their modules; those that are no module of it stay as they are.

    A flattened name that could be two modules stays too: nothing is guessed.
    """
    table = _table(modules)
    return [replace(part, module=table.get(part.module) or part.module) for part in parts]


def _table(modules: Iterable[str]) -> Mapping[str, str | None]:
    table: dict[str, str | None] = {}
    for module in modules:
        for front in _FRONTS:
            for name in {front + module, module.removeprefix(front)}:
                flat = name.replace(".", "_")
                taken = table.setdefault(flat, module)
                if taken != module and front == "":
                    table[flat] = None
    return table
