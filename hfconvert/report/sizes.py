"""Sizes as people read them: decimal units, as the Hub shows them."""

from __future__ import annotations


def human(nbytes: int) -> str:
    """Bytes in the largest decimal unit that keeps a number below 1000: `4.40 GB`."""
    if nbytes < 1000:
        return f"{nbytes} B"
    size = float(nbytes)
    for unit in ("kB", "MB", "GB", "TB"):
        size /= 1000
        if size < 999.5 or unit == "TB":
            break
    digits = 2 if size < 10 else 1 if size < 100 else 0
    return f"{size:.{digits}f} {unit}"


def signed(nbytes: int) -> str:
    """A difference of bytes: `+4.40 GB`, `-12 B`."""
    return f"{'-' if nbytes < 0 else '+'}{human(abs(nbytes))}"


def counted(count: int, noun: str) -> str:
    """A number with its noun: `1 tensor`, `21 tensors`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
