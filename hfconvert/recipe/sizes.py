"""Sizes and spans of time as recipes write them: `5GB`, `90m`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import PlainValidator

from hfconvert.recipe.faults import RefusedError, shown
from hfconvert.recipe.model import Shape

_UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZE = r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*((?:[kKmMgGtT][iI]?)?[bB])\s*"
_SPAN = r"\s*([0-9]{1,9})\s*([smhd])\s*"


def parse_size(text: str) -> int:
    """Bytes of `5GB` or `1.5GiB`: KB, MB, GB, TB are decimal, KiB to TiB binary. Raises RefusedError."""
    match = re.fullmatch(_SIZE, text)
    if match is None:
        raise RefusedError(
            f"{shown(text)} is not a size", why="a size is a number and a unit", do="write 5GB"
        )
    whole, _, part = match[1].partition(".")
    size: int = int(whole + part) * _UNITS[match[2].upper()] // 10 ** len(part)
    if size < 1:
        raise RefusedError(f"{shown(text)} is no room at all", do="write a size above zero")
    return size


def _size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RefusedError(f"must be a size, not {shown(value)}", do="write 5GB")
    if not isinstance(value, str):
        raise RefusedError(
            f"{shown(value)} is a bare number",
            why="it does not say whether bytes or gigabytes are meant",
            do="write the unit: 5GB, 500MB",
        )
    return parse_size(value)


def _bytes(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return int(value)
    return _size(value)


def _span(value: object) -> int:
    match = re.fullmatch(_SPAN, value) if isinstance(value, str) else None
    if match is None or int(match[1]) == 0:
        raise RefusedError(
            f"{shown(value)} is not a span of time", why="it is a number and a unit", do="write 5h"
        )
    return int(match[1]) * _SECONDS[match[2]]


_SIZE_SCHEMA = {"type": "string", "pattern": f"^{_SIZE}$", "examples": ["5GB", "500MB"]}

Size = Annotated[int, PlainValidator(_size), Shape(_SIZE_SCHEMA)]
"""Bytes, written with a unit; a bare number is refused."""

Bytes = Annotated[
    int,
    PlainValidator(_bytes),
    Shape({"anyOf": [_SIZE_SCHEMA, {"type": "integer", "minimum": 1}]}),
]
"""Bytes, with or without a unit: for fields whose name says bytes."""

Span = Annotated[
    int,
    PlainValidator(_span),
    Shape({"type": "string", "pattern": f"^{_SPAN}$", "examples": ["90m", "5h"]}),
]
"""Seconds, written as `90m`, `5h` or `2d`."""
