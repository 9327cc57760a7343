"""Which scalars of a recipe are typed: `null`, `true`, `false` and JSON numbers; nothing else.

YAML 1.1 would read `no`, `off`, `0x10`, `1_000` and `2024-01-01` as something other than what was written.
Numbers remember their text, so that a commit of digits arrives as it was written where text is wanted.
"""

from __future__ import annotations

import re

_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
_WORDS: dict[str, bool | None] = {"null": None, "true": True, "false": False, "": None}
# Python refuses to turn more digits into an integer, and no field wants as many.
_MOST_DIGITS = 400


class Whole(int):
    """An integer that remembers how it was written."""

    text: str


class Decimal(float):
    """A number with a point or an exponent that remembers how it was written."""

    text: str


Scalar = str | bool | Whole | Decimal | None


def plain_scalar(text: str) -> Scalar:
    """The value of a scalar that stands without quotes; a key without any value is null."""
    if text in _WORDS:
        return _WORDS[text]
    match = _JSON_NUMBER.match(text)
    if match is None:
        return text
    inexact = match[1] or match[2] or len(text) > _MOST_DIGITS
    number: Whole | Decimal = Decimal(text) if inexact else Whole(text)
    number.text = text
    return number


def as_written(value: object) -> object:
    """A number as the text that it was written with; anything else unchanged."""
    return value.text if isinstance(value, Whole | Decimal) else value
