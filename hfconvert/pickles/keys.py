"""Keys of dictionaries: only those that hash and compare in bounded time."""

from __future__ import annotations

from typing import Any

from hfconvert.pickles.values import Global, Span, Stub

MAX_DEPTH = 2
MAX_PARTS = 16


def hashable(key: Any) -> Any:
    """A key that can be hashed in bounded time: itself, or a Stub that holds it."""
    return key if _simple(key, MAX_DEPTH) else Stub(key)


def _simple(key: Any, depth: int) -> bool:
    if type(key) is int:
        return -(1 << 63) <= key < 1 << 64
    if type(key) is tuple:
        return depth > 0 and len(key) <= MAX_PARTS and all(_simple(part, depth - 1) for part in key)
    return key is None or isinstance(key, (str, bytes, bool, float, Global, Span, Stub))
