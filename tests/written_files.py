"""Folders of real files for tests: pickles by `torch.save`, safetensors by their library, JSON, bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def saved(value: Any, **options: Any) -> bytes:
    """A value as `torch.save` writes it."""
    import torch

    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def content_of(name: str, content: Any) -> bytes:
    """Bytes as they are; else JSON, safetensors or a pickle, as the name says."""
    from safetensors.torch import save

    if isinstance(content, bytes):
        return content
    if name.endswith(".json"):
        return json.dumps(content).encode()
    return save(content) if name.endswith(".safetensors") else saved(content)


def write_files(root: Path, files: Mapping[str, Any]) -> Path:
    """Write files by their places below a folder; the folder."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content_of(name, content))
    return root
