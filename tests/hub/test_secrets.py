from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.hub.secrets import clean, clean_logs

TOKEN = "hf_" + "a1B2" * 8


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"bad {TOKEN}.", "bad (token)."),
        (f"Authorization: Bearer {TOKEN}", "Authorization: (token)"),
        ("bearer abc def", "(token) def"),
        ("see https://cdn/x?Signature=abc&k=1 there", "see https://cdn/x there"),
        ("bad hf_jwt_eyJhbGciOi.eyJzdWIiOi-J.sig_Na-ture x", "bad (token) x"),
        ("at https://user:s3cret@mirror.example/x?y=1", "at https://mirror.example/x"),
        ("two\nlines\x1b[31m", "two lines [31m"),
        ("nothing to hide: hf_hub", "nothing to hide: hf_hub"),
    ],
)
def test_secrets_and_control_characters_are_left_out(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(st.text(), st.text())
def test_a_token_never_remains(before: str, after: str) -> None:
    assert TOKEN not in clean(f"{before} {TOKEN} {after}")


def test_long_texts_are_cut() -> None:
    assert clean("x" * 1000) == "x" * 300 + "..."


def test_an_answer_of_any_size_is_cut_before_it_is_searched() -> None:
    assert clean("http://a" * 10_000_000).startswith("http://ahttp://a")


def test_logs_are_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    import huggingface_hub  # noqa: F401  # its logger has a handler once it is loaded

    clean_logs()
    clean_logs()
    logger = logging.getLogger("huggingface_hub")
    record = logging.makeLogRecord({"msg": "from %s", "args": (f"https://cdn/a?x={TOKEN}",)})
    for handler in logger.handlers:
        assert handler.filter(record)
        assert record.getMessage() == "from https://cdn/a"
