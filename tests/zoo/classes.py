"""The class that stands for a model type: a head that most people load, else any other, else a part."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

# Tried first, in this order; then every other mapping of transformers, in its own.
_FIRST = (
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


class NotBuiltError(Exception):
    """No tiny model of a type can be built here; the message says why."""


def kinds() -> list[str]:
    """Every model type that transformers knows."""
    from transformers.models.auto import configuration_auto

    return sorted(vars(configuration_auto)["CONFIG_MAPPING_NAMES"])


def class_of(kind: str) -> Any:
    """The class of a type. NotBuiltError where transformers exports none."""
    import transformers

    for name in _names(kind):
        cls = getattr(transformers, name, None)
        if cls is not None:
            return cls
    raise NotBuiltError("a part of another type, without a class that transformers exports")


def _names(kind: str) -> Iterator[str]:
    from transformers.models.auto import modeling_auto

    mappings = {
        name: one for name, one in vars(modeling_auto).items() if name.endswith("_MAPPING_NAMES")
    }
    for mapping in (*_FIRST, *(name for name in mappings if name.startswith("MODEL_FOR_"))):
        name = mappings.get(mapping, {}).get(kind)
        if name:
            yield name if isinstance(name, str) else name[0]
    yield from _of_module(kind)


def _of_module(kind: str) -> Iterator[str]:
    """Classes beside the configuration that take it: those of types that are parts of others."""
    from transformers import CONFIG_MAPPING, PreTrainedModel

    config_class = CONFIG_MAPPING[kind]
    try:
        module = importlib.import_module(
            config_class.__module__.replace(".configuration_", ".modeling_")
        )
    except ImportError:
        return
    for name, cls in vars(module).items():
        if (
            inspect.isclass(cls)
            and issubclass(cls, PreTrainedModel)
            and vars(cls).get("config_class", cls.config_class) is config_class
            and "PreTrained" not in name
        ):
            yield name
