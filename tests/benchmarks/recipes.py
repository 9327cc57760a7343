"""The recipes that the benchmarks run, written where their data is."""

from __future__ import annotations

import json
from pathlib import Path


def write_recipe(folder: Path, source: Path, *, dtype: str = "keep", tensors: str = "off") -> Path:
    """A recipe that converts `source`, with no check but the `tensors` check as named."""
    recipe = {
        "version": 1,
        "source": {"path": str(source)},
        "dtype": dtype,
        "output": {"max_shard_size": "600MB"},
        "validate": {"tensors": tensors, "architecture": "off", "logits": "off"},
    }
    file = folder / f"{dtype}-{tensors}.yaml"
    file.write_text(json.dumps(recipe, indent=2) + "\n")  # JSON is YAML
    return file
