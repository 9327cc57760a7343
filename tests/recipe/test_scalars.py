from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.recipe.scalars import Decimal, Whole, as_written, plain_scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [("null", None), ("", None), ("true", True), ("false", False), ("0", 0), ("-12", -12)],
)
def test_typed_words_and_integers(text: str, value: object) -> None:
    assert plain_scalar(text) == value


@pytest.mark.parametrize(("text", "value"), [("1.5", 1.5), ("1e3", 1000.0), ("-0.25E-2", -0.0025)])
def test_numbers_with_point_or_exponent(text: str, value: float) -> None:
    assert plain_scalar(text) == value
    assert type(plain_scalar(text)) is Decimal


@pytest.mark.parametrize(
    "text",
    [
        *("off", "no", "yes", "on", "Off", "NO", "y"),
        *("n", "True", "TRUE", "Null", "NULL", "~", "0x10"),
        *("0o17", "017", "1_000", "+1", ".5", "1.", "1e"),
        *("12:30:45", "2024-01-01", "2024-01-01T00:00:00Z", ".inf", ".nan", "-.inf", "NaN"),
        *("Infinity", "1,000"),
        "\u0661\u0662",
    ],
)
def test_every_other_scalar_stays_text(text: str) -> None:
    assert plain_scalar(text) == text
    assert type(plain_scalar(text)) is str


@pytest.mark.parametrize("text", ["1234567", "12e4567", "1.50", "-0", "1" * 5000])
def test_numbers_remember_how_they_were_written(text: str) -> None:
    assert as_written(plain_scalar(text)) == text


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_every_json_number_is_a_number(number: float) -> None:
    value = plain_scalar(json.dumps(number))
    assert isinstance(value, Whole | Decimal)
    assert value == number
    assert value.text == json.dumps(number)


@given(st.text())
def test_never_fails_and_keeps_the_text(text: str) -> None:
    value = plain_scalar(text)
    if isinstance(value, str | Whole | Decimal):
        assert as_written(value) == text
    else:
        assert text in {"null", "true", "false", ""}
