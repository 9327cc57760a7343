"""What part a file plays in a folder, which library a folder is for, which wrappers its names carry."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from hfconvert.keymap.prefixes import WRAPPERS
from hfconvert.readers.layout import FAMILIES, Layout

Role = Literal["weights", "optimizer", "other"]

_OPTIMIZER = (
    "optimizer*",
    "scheduler*",
    "rng_state*",
    "random_states*",
    "scaler*",
    "training_args.bin",
)


def role_of(name: str, layout: Layout | None) -> Role:
    """The role of a file: weights are those of the layout that a conversion would read."""
    base = name.rpartition("/")[2]
    if layout and name in layout.files:
        return "weights"
    if Path(base).suffix in FAMILIES and any(fnmatchcase(base, one) for one in _OPTIMIZER):
        return "optimizer"
    return "other"


def library_of(root: Path) -> str | None:
    """The library that a folder is laid out for, by the files that it looks for."""
    marks = {
        "adapter_config.json": "peft",
        "modules.json": "sentence-transformers",
        "model_index.json": "diffusers",
        "open_clip_config.json": "open_clip",
        "config.json": "transformers",
    }
    return next((library for file, library in marks.items() if (root / file).is_file()), None)


def wrappers_in(names: Iterable[str]) -> list[str]:
    """The wrappers of torch and DeepSpeed whose prefixes stand in the names."""
    known = list(names)
    return [
        wrapper
        for wrapper in WRAPPERS
        if any(name.startswith(wrapper) or f".{wrapper}" in name for name in known)
    ]
