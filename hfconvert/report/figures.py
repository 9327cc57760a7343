"""What a check measured, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hfconvert.report.sizes import human


def figures(measured: Mapping[str, Any]) -> Iterator[str]:
    """The figures of a check: numbers, and counts by kind of module and dtype on both sides."""
    before, after = measured.get("source"), measured.get("result")
    if isinstance(before, dict) and isinstance(after, dict):
        for kind in sorted({*before, *after}):
            old, new = _counts(before.get(kind, {})), _counts(after.get(kind, {}))
            yield f"{kind} {old}" if old == new else f"{kind} {old} -> {new}"
    for name, value in measured.items():
        if isinstance(value, int) and name.endswith("_bytes"):
            yield f"{name.removesuffix('_bytes')} {human(value)}"
        elif not isinstance(value, dict):
            yield f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"


def _counts(by_code: Mapping[str, int]) -> str:
    return " ".join(f"{count} {code}" for code, count in by_code.items()) or "none"
