"""Whether the fields of an adapter's configuration hold what PEFT writes there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hfconvert.errors import Problem, source_problem
from hfconvert.lora.settings import Settings


def wrong_fields(settings: Settings, label: str) -> Iterator[Problem]:
    """A problem (exit 3) for every field whose value is of another kind; null is what is not set."""
    for field, (holds, kind) in _KINDS.items():
        value = settings.values.get(field)
        if value is not None and not holds(value):
            yield source_problem(
                f"`{field}` is {json.dumps(value, default=str)[:120]}, and has to be {kind}",
                why="it was edited, or written by something else than PEFT",
                do="fetch the adapter's own adapter_config.json",
                subject=label,
                check="lora",
            )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _all(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple | set) and all(map(holds, value))


def _of_names(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Mapping) and all(map(holds, value.values()))


def _either(*ways: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: any(holds(value) for holds in ways)


_NAMES = _either(_is_text, _all(_is_text)), "a text or a list of names"
_LIST = _all(_is_text), "a list of names"
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "target_modules": _NAMES,
    "exclude_modules": _NAMES,
    "feedforward_modules": _NAMES,
    "layers_pattern": _NAMES,
    "modules_to_save": _LIST,
    "target_parameters": _LIST,
    "r": (_is_count, "a whole number"),
    "lora_alpha": (_is_number, "a number"),
    "alpha": (_is_number, "a number"),
    "rank_pattern": (_of_names(lambda _: True), "ranks by names of modules"),
    "alpha_pattern": (_of_names(_is_number), "numbers by names of modules"),
    "layers_to_transform": (_either(_is_count, _all(_is_count)), "a number or a list of numbers"),
    "token_indices": (_all(_is_count), "a list of numbers"),
    "trainable_token_indices": (
        _either(_all(_is_count), _of_names(_all(_is_count))),
        "a list of numbers, or such lists by names of modules",
    ),
    "bias": (_is_text, "a text"),
    "peft_version": (_is_text, "a text"),
}
