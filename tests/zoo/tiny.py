"""A tiny model of every type that transformers knows, made from its own default configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tests.zoo.classes import NotBuiltError, class_of
from tests.zoo.special import SPECIAL

VOCABULARY = 160
MOST = 64_000_000  # parameters; what stays larger is not tiny
LAYERS = 2
_WIDTH = re.compile(
    r"hidden|embed|embd|inter(mediate)?_|ffn|ff_|_ff|d_model|d_kv|d_inner|dim|width|channel|rank|n_inner|filters|^c_|reduction|upsample_groups"
)
_NOT_WIDTH = re.compile(
    r"vocab|position|patch|kernel|window|image|layer|heads|num_hidden_groups|ratio|mult|dropout|act|types"
)
_DEPTH = re.compile(r"(^|_)(n_?layers?|num_layers|layers|num_.*layers|depth|num_blocks|n_layer)$")
_TOO_LARGE = f"more than {MOST // 10**6} million parameters, however it is shrunk"
_LIBRARY = re.compile(r"requires the (\w+) library|No module named '(\w+)'")
_TOKEN = re.compile(r"(_token_id|_token_index|_token)$")
# The most of some numbers: few experts, and those in the layers that there are.
_LIMITS = {
    **dict.fromkeys(
        (
            "vocab_size",
            "entity_vocab_size",
            "text_vocab_size",
            "unpadded_vocab_size",
            "vocab_size_per_layer_input",
        ),
        VOCABULARY,
    ),
    "encoder_hash_byte_group_vocab": 1000,
    "num_experts_per_tok": 2,
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 8),
    **dict.fromkeys(("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"), 1),
}
_ABOUT = ("model_type", "transformers_version", "architectures")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to make a configuration small: how much narrower, whether with few layers, whether lists with
    an entry for every layer become as short, and whether inner configurations keep what is their own."""

    factor: int
    shallow: bool
    cut: bool
    own: bool


_WAYS = [
    Way(factor, shallow, cut, own)
    for factor in (16, 8, 4, 2, 1)
    for own in (True, False)
    for shallow, cut in ((True, False), (True, True), (False, False))
]


def build(kind: str) -> Any:
    """A tiny model, its parameters from a seed. NotBuiltError, with the reason, where none can be made."""
    reasons = []
    cls = class_of(kind)
    for way in _WAYS:
        try:
            return _model(cls, _shrunk(cls.config_class, kind, way))
        except Exception as error:  # noqa: BLE001 - defaults that cannot be shrunk so: the next way
            reasons.append(_reason(error))
    raise NotBuiltError(_clearest(reasons))


def _model(cls: Any, config: Any) -> Any:
    config.architectures = [cls.__name__]
    with torch.device("meta"):
        outline = cls(config)
    size = sum(one.numel() for one in (*outline.parameters(), *outline.buffers()))
    if size > MOST:
        raise NotBuiltError(_TOO_LARGE)
    torch.manual_seed(2)
    model = cls(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.uniform_(-0.1, 0.1)
    return model


def _reason(error: Exception) -> str:
    if isinstance(error, NotBuiltError):
        return str(error)
    library = _LIBRARY.search(str(error)) if isinstance(error, ImportError) else None
    if library:
        return f"it takes {library[1] or library[2]}, which is not installed"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _clearest(reasons: list[str]) -> str:
    """Being too large is a clearer reason than what breaks on the way to be small."""
    return min(reasons, key=lambda reason: reason != _TOO_LARGE)


def _shrunk(config_class: Any, kind: str, way: Way) -> Any:
    """The default configuration with fewer layers, a small vocabulary and narrower layers.

    Made anew from what is changed, so that what follows from it (a list of layers, say) follows; and sound
    when it is read back from its own text, as every loader does.
    """
    special = SPECIAL.get(kind, {})
    base = config_class(**special)
    config = config_class(**_merged(_changes(base, way), special))
    return config_class.from_dict(config.to_dict())


def _merged(changes: dict[str, Any], special: Mapping[str, Any]) -> dict[str, Any]:
    """What is special goes before what is small."""
    merged = {**changes, **special}
    for name, value in special.items():
        if isinstance(value, Mapping) and isinstance(changes.get(name), dict):
            merged[name] = _merged(changes[name], value)
    return merged


def _changes(config: Any, way: Way) -> dict[str, Any]:
    """The values that become smaller, those of configurations within it as well."""
    from transformers import PreTrainedConfig

    values = {name: value for name, value in vars(config).items() if not name.startswith("_")}
    depths = _depths(values)
    changes: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, PreTrainedConfig):
            inner = _changes(value, way)
            if inner:
                own = _own(value) if way.own else {}
                changes[name] = {"model_type": value.model_type, **own, **inner}
            continue
        small = value
        if way.cut and isinstance(value, (list, tuple)) and len(value) in depths:
            small = value[:LAYERS]
        small = _smaller(name, small, way)
        if small != value:
            changes[name] = small
    return changes


def _depths(values: Mapping[str, Any]) -> set[int]:
    """The numbers of layers that become smaller."""
    return {
        value
        for name, value in values.items()
        if type(value) is int and value > LAYERS and _DEPTH.search(name)
    }


def _own(config: Any) -> dict[str, Any]:
    """What an inner configuration has otherwise than its class, but what follows from the layers."""
    depths = _depths(vars(config))
    return {
        name: value
        for name, value in config.to_diff_dict().items()
        if name not in _ABOUT and not (isinstance(value, (list, tuple)) and len(value) in depths)
    }


def _smaller(name: str, value: Any, way: Way) -> Any:
    if isinstance(value, (list, tuple)) and value and all(type(one) is int for one in value):
        if name == "depths":
            return type(value)([1] * len(value))
        return type(value)(_width(one, way) for one in value) if _is_width(name) else value
    return _smaller_number(name, value, way) if type(value) is int else value


def _smaller_number(name: str, value: int, way: Way) -> int:
    if _TOKEN.search(name) and value >= VOCABULARY:
        return VOCABULARY - 10 + value % 8
    if name in _LIMITS:
        return min(value, _LIMITS[name])
    if _DEPTH.search(name):
        return min(value, LAYERS) if way.shallow else value
    return _width(value, way) if _is_width(name) else value


def _is_width(name: str) -> bool:
    return bool(_WIDTH.search(name)) and not _NOT_WIDTH.search(name)


def _width(value: int, way: Way) -> int:
    return value // way.factor if value >= 64 and value % way.factor == 0 else value
