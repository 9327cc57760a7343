"""Names of adapter tensors: which module each belongs to, and which of the module's parameters it is.

The names are those of PEFT as it saves them and as a state dict has them (`lora_A.default.weight`), with any
number of `base_model.model.` in front, and those of diffusers. Sources: `get_peft_model_state_dict` of PEFT;
`loaders/lora_conversion_utils.py` and the attention processors of diffusers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Literal, NamedTuple

from hfconvert.lora.methods import PARAMETERS

Naming = Literal["peft", "diffusers", "kohya"]


class Key(NamedTuple):
    """Module, parameter within it, and the part of a pipeline that the name speaks of, if it does."""

    module: str
    parameter: str
    component: str = ""


COMPONENTS = (
    "unet",
    "text_encoder",
    "text_encoder_2",
    "text_encoder_3",
    "transformer",
    "transformer_2",
    "image_encoder",
    "controlnet",
    "prior",
)
_WRAPPERS = ("base_model.model.", "base_model.", "module.", "_orig_mod.", "_fsdp_wrapped_module.")
_AUXILIARY = ("base_layer", "token_adapter")
# What stands behind the name of a parameter and is no adapter's name; so are numbers.
_WITHIN = frozenset(
    ("weight", "bias", "U_low", "S_low", "V_low", "vector_a", "vector_b", "Xd", "Xu", "X", "zeros")
)
_SAVED = re.compile(r"\.modules_to_save\.[^.]+\.")
# Parameters behind whose names stands a kind of modules, or what a module of their own is made of.
_BY_KIND = frozenset({"frod_V", "frod_s_indices", "frod_s_size", "lora_monteclora_sampler"})
# Ends of names that earlier versions of diffusers wrote.
_DIFFUSERS = (
    (re.compile(r"\.processor\.to_out_lora\."), ".to_out.0.lora."),
    (re.compile(r"\.processor\.(\w+)_lora\."), r".\1.lora."),
    (re.compile(r"\.to_out_lora\."), ".to_out.0.lora."),
    (re.compile(r"\.(to_[qkv])_lora\."), r".\1.lora."),
    (re.compile(r"\.(?:lora|lora_linear_layer)\.down\.weight$"), ".lora_A.weight"),
    (re.compile(r"\.(?:lora|lora_linear_layer)\.up\.weight$"), ".lora_B.weight"),
    (re.compile(r"\.lora_down\.weight$"), ".lora_A.weight"),
    (re.compile(r"\.lora_up\.weight$"), ".lora_B.weight"),
)


def naming_of(names: Iterable[str]) -> Naming:
    """Which family of names this is; `peft` where nothing speaks for another."""
    known = list(names)
    if any(name.startswith("base_model.") for name in known):
        return "peft"
    first = {name.partition(".")[0] for name in known}
    old = any(pattern.search(name) for pattern, _ in _DIFFUSERS[:4] for name in known)
    return "diffusers" if known and (first <= set(COMPONENTS) or old) else "peft"


def parse_names(names: Iterable[str], naming: Naming) -> dict[str, Key]:
    """Every name with what it says; names of an adapter's own (`default`) are left out."""
    known = list(names)
    if naming == "diffusers":
        keys = {name: _diffusers(name) for name in known}
    else:
        keys = {name: _split(unwrapped(name)) for name in known}
    called = adapter_names(keys.values())
    return {
        name: key._replace(parameter=_without(key.parameter, called)) for name, key in keys.items()
    }


def unwrapped(name: str) -> str:
    """The name without what PEFT and wrappers put into it, however often."""
    name = _SAVED.sub(".", name)
    while name.startswith(_WRAPPERS):
        name = next(name.removeprefix(one) for one in _WRAPPERS if name.startswith(one))
    return name


def adapter_names(keys: Iterable[Key]) -> set[str]:
    """What the adapters are called whose names stand within the names of parameters."""
    found = set()
    for key in keys:
        parts = key.parameter.split(".")
        for before, part in pairwise(parts):
            known = before in _BY_KIND or part in _WITHIN or part.isdigit()
            if before in PARAMETERS and not known:
                found.add(part)
    return found


def by_module(keys: Mapping[str, Key]) -> dict[tuple[str, str], dict[str, str]]:
    """Component and module, to parameter and name."""
    modules: dict[tuple[str, str], dict[str, str]] = {}
    for name, key in keys.items():
        modules.setdefault((key.component, key.module), {})[key.parameter] = name
    return modules


def _split(name: str) -> Key:
    """The adapter's share begins at the last name of a parameter, with what wraps it in front.

    Where there is none, it is what stands behind the last dot.
    """
    parts = name.split(".")
    at = len(parts) - 1
    for number in range(len(parts) - 1, max(-1, len(parts) - 4), -1):
        if parts[number] in PARAMETERS:
            at = number
            break
    while at > 0 and parts[at - 1] in _AUXILIARY:
        at -= 1
    if "base_layer" in parts[:at]:  # of a module within the one that is wrapped
        at = parts.index("base_layer")
    return Key(".".join(parts[:at]), ".".join(parts[at:]))


def _diffusers(name: str) -> Key:
    first, _, rest = name.partition(".")
    component = first if first in COMPONENTS and rest else ""
    rest = rest if component else name
    for pattern, text in _DIFFUSERS:
        rest = pattern.sub(text, rest)
    return _split(rest)._replace(component=component)


def _without(parameter: str, called: set[str]) -> str:
    parts = parameter.split(".")
    kept = parts[:1] + [
        part for before, part in pairwise(parts) if not (part in called and before in PARAMETERS)
    ]
    return ".".join(kept)
