"""PEFT's rules: which modules a configuration targets, and which rank and alpha each has.

Sources: `check_target_module_exists` and `_inject_parameters` of `peft/tuners/tuners_utils.py`,
`get_pattern_key` of `peft/utils/other.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from hfconvert.lora.settings import Settings

ALL_LINEAR = "all-linear"


def is_target(settings: Settings, module: str) -> bool:
    """Whether `target_modules` and the fields that narrow it take this module in.

    For `all-linear` it is true for every module: the names do not tell.
    """
    targets = settings.get("target_modules")
    if targets is None or _is_excluded(settings, module) or is_saved(settings, module):
        return False
    if isinstance(targets, str):
        return targets.lower() == ALL_LINEAR or bool(_regex(targets).fullmatch(module))
    if module in targets:
        return True
    return _ends_with(module, targets) and _in_layers(settings, module)


def is_saved(settings: Settings, module: str) -> bool:
    """Whether `modules_to_save` takes this module in, or one around it."""
    names = settings.get("modules_to_save") or ()
    return any(_regex(rf"(^|.*\.){name}($|\..*)").match(module) for name in names)


def is_target_parameter(settings: Settings, name: str) -> bool:
    """Whether `target_parameters` takes this parameter in."""
    targets = settings.get("target_parameters") or ()
    return name in targets or _ends_with(name, targets)


def pattern_value(patterns: Mapping[str, Any] | None, module: str, default: Any) -> Any:
    """The value of the first pattern that ends the module's name, as in `rank_pattern`."""
    for pattern, value in (patterns or {}).items():
        if _regex(rf"(.*\.)?({pattern})$").match(module):
            return value
    return default


def _is_excluded(settings: Settings, module: str) -> bool:
    excluded = settings.get("exclude_modules")
    if not excluded:
        return False
    if isinstance(excluded, str):
        return bool(_regex(excluded).fullmatch(module))
    return module in excluded or _ends_with(module, excluded)


def _in_layers(settings: Settings, module: str) -> bool:
    wanted = settings.get("layers_to_transform")
    if wanted is None or wanted == []:
        return True
    patterns = settings.get("layers_pattern") or ()
    patterns = [patterns] if isinstance(patterns, str) else list(patterns)
    tried = [rf"(?:^|.*?\.){pattern}\.(?P<idx>\d+)\." for pattern in patterns]
    for pattern in tried or [r".*?\.[^.]*\.(?P<idx>\d+)\."]:
        found = _regex(pattern).match(module)
        if found:
            layer = int(found["idx"])
            return layer == wanted if isinstance(wanted, int) else layer in wanted
    return False


def _ends_with(name: str, ends: Iterable[str]) -> bool:
    return any(name.endswith(f".{end}") for end in ends)


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
