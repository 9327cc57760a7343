"""What a report calls the side that something came from or went to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def place_of(side: Mapping[str, Any] | None) -> str:
    """A repository at its commit, or a path; empty where there is neither."""
    if not side:
        return ""
    commit = f"@{side['commit'][:12]}" if side.get("commit") else ""
    return f"{side['repo']}{commit}" if side.get("repo") else str(side.get("path") or "")
