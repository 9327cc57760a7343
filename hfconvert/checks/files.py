"""The `files` check: side files arrived byte for byte, and the configuration is still one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from hfconvert.checks.result import Check
from hfconvert.digest import content_hash
from hfconvert.hashing import hash_file
from hfconvert.tensors.source import LocalFile


def check_files(copies: Sequence[LocalFile], folder: Path) -> Check:
    """Compare every copied file with its source by sha256, both read afresh."""
    faults = [
        f"{copy.name} is not what the source holds"
        for copy in copies
        if hash_file(folder / copy.name) != content_hash(copy)
    ]
    config = folder / "config.json"
    if config.is_file() and not _is_object(config):
        faults.append("config.json is no JSON object")
    return Check(
        "files",
        "fail" if faults else "pass",
        {"files": len(copies), "faults": len(faults)},
        {"faults": 0},
        "; ".join(faults[:10]),
    )


def _is_object(path: Path) -> bool:
    try:
        return isinstance(json.loads(path.read_bytes()), dict)
    except ValueError:
        return False
