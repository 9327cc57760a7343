"""The `config.json` beside a model's weights."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hfconvert.errors import UserError, source_problem, unreadable_problem
from hfconvert.readers.json_text import KeyPath

TIE = "tie_word_embeddings"
DTYPE = ("dtype", "torch_dtype")  # of transformers since 4.56, and before
CONFIG = "config.json"
MAX_CONFIG = 16 << 20  # bytes


def read_config(root: Path) -> Mapping[str, Any] | None:
    """The configuration of the folder, or None where there is none. UserError (exit 3) where it is broken."""
    path = root / CONFIG
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > MAX_CONFIG:
            raise _broken(path, f"it is larger than {MAX_CONFIG} bytes")
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(unreadable_problem(path, error)) from error
    except (ValueError, RecursionError) as error:
        raise _broken(path, str(error)) from error
    if not isinstance(document, dict):
        raise _broken(path, "it is no JSON object")
    return document


def tied_embeddings(config: Mapping[str, Any] | None) -> bool | None:
    """Whether input embedding and head are one tensor, as the configuration says; None where it is silent."""
    if config is None:
        return None
    inner = [value for value in config.values() if isinstance(value, dict)]
    said = [part.get("tie_word_embeddings") for part in (config, *inner)]
    return True if True in said else False if False in said else None


def with_floats(value: Any) -> Any:
    """A value of a configuration with the floats that JSON has not, which transformers writes as objects.

    `{"__float__": "Infinity"}` is infinity, as `PreTrainedConfig` reads it.
    """
    if isinstance(value, Mapping):
        tag = value.get("__float__")
        if len(value) == 1 and tag in _FLOATS:
            return float(tag)
        return {key: with_floats(one) for key, one in value.items()}
    return [with_floats(one) for one in value] if isinstance(value, list) else value


def model_configs(config: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """The configuration and those of its parts (`text_config`, `decoder`, ...), with their paths."""
    yield (), config
    for key, value in config.items():
        part = key.endswith("_config") or key in _PARTS
        if part and isinstance(value, dict) and not is_quantization(key):
            for path, inner in model_configs(value):
                yield (key, *path), inner


def is_quantization(key: str) -> bool:
    """Whether a key of a configuration says how weights are quantised or compressed."""
    return "quant" in key or "compress" in key


_FLOATS = ("Infinity", "-Infinity", "NaN")
_PARTS = ("encoder", "decoder", "generator", "question_encoder")


def _broken(path: Path, how: str) -> UserError:
    return UserError(
        source_problem(
            f"this configuration cannot be read: {how}",
            why="it is damaged, or a download was interrupted",
            do="fetch it again",
            subject=str(path),
        )
    )
