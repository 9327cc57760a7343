"""Tiny models of every type that transformers knows, made from its own default configurations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

VOCABULARY = 160
MOST = 12_000_000  # parameters; what stays larger is not tiny
_WIDTH = re.compile(
    r"hidden|embed|embd|inter(mediate)?_|ffn|ff_|_ff|d_model|d_kv|d_inner|dim|width|channel|rank|n_inner|filters|^c_|reduction"
)
_NOT_WIDTH = re.compile(
    r"vocab|position|patch|kernel|window|image|layer|heads|num_hidden_groups|ratio|mult|dropout|act|types"
)
_DEPTH = re.compile(r"(^|_)(n_?layers?|num_layers|layers|num_.*layers|depth|num_blocks|n_layer)$")
_TOKEN = re.compile(r"(_token_id|_token_index|_token)$")

# The classes of a type, the first that is there: a head that most people load, else the bare model.
_MAPPINGS = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_CTC_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES",
    "MODEL_FOR_DEPTH_ESTIMATION_MAPPING_NAMES",
    "MODEL_FOR_PRETRAINING_MAPPING_NAMES",
    "MODEL_MAPPING_NAMES",
)


@pytest.fixture
def kinds() -> list[str]:
    """Every model type that transformers knows."""
    from transformers.models.auto import configuration_auto

    return sorted(vars(configuration_auto)["CONFIG_MAPPING_NAMES"])


@pytest.fixture
def build() -> Callable[[str], Any]:
    """A tiny model of a type; None, and nothing to prove, where none can be made from its defaults."""
    return _build


def _build(kind: str) -> Any:
    cls = _class_of(kind)
    if cls is None:
        return None
    for factor in (16, 8, 4, 1):
        try:
            config = _shrunk(cls.config_class, factor)
            config.architectures = [cls.__name__]
            with torch.device("meta"):
                outline = cls(config)
            sizes = [one.numel() for one in (*outline.parameters(), *outline.buffers())]
            if sum(sizes) > MOST:
                continue
            torch.manual_seed(2)
            model = cls(config).eval()
        except Exception:  # noqa: BLE001 - defaults that cannot be shrunk this far: the next factor
            continue
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.is_floating_point():
                    parameter.uniform_(-0.1, 0.1)
        return model
    return None


def _class_of(kind: str) -> Any:
    import transformers
    from transformers.models.auto import modeling_auto

    for mapping in _MAPPINGS:
        name = getattr(modeling_auto, mapping, {}).get(kind)
        if name:
            try:
                return getattr(transformers, name if isinstance(name, str) else name[0])
            except (AttributeError, ImportError):
                return None
    return None


def _shrunk(config_class: Any, factor: int) -> Any:
    """The default configuration with fewer layers, a small vocabulary and narrower layers.

    Made anew from what is changed, so that what follows from it (a list of layers, say) follows; and sound
    when it is read back from its own text, as every loader does.
    """
    config = config_class(**_changes(config_class(), factor))
    return config_class.from_dict(config.to_dict())


def _changes(config: Any, factor: int) -> dict[str, Any]:
    """The values that become smaller, those of configurations within it as well."""
    from transformers import PreTrainedConfig

    changes: dict[str, Any] = {}
    for name, value in vars(config).items():
        if name.startswith("_"):
            continue
        if isinstance(value, PreTrainedConfig):
            inner = _changes(value, factor)
            if inner:
                changes[name] = {"model_type": value.model_type, **inner}
        elif (small := _smaller(name, value, factor)) != value:
            changes[name] = small
    return changes


def _smaller(name: str, value: Any, factor: int) -> Any:
    if isinstance(value, list) and value and all(type(one) is int for one in value):
        if name == "depths":
            return [1] * len(value)
        return [_width(one, factor) for one in value] if _is_width(name) else value
    return _smaller_number(name, value, factor) if type(value) is int else value


def _smaller_number(name: str, value: int, factor: int) -> int:
    if _TOKEN.search(name) and value >= VOCABULARY:
        return VOCABULARY - 10 + value % 8
    limits = {
        "vocab_size": VOCABULARY,
        **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 8),
    }
    if name in limits or _DEPTH.search(name):
        return min(value, limits.get(name, 2))
    return _width(value, factor) if _is_width(name) else value


def _is_width(name: str) -> bool:
    return bool(_WIDTH.search(name)) and not _NOT_WIDTH.search(name)


def _width(value: int, factor: int) -> int:
    return value // factor if value >= 64 and value % factor == 0 else value
