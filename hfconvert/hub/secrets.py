"""Tokens and signed addresses stay out of every text."""

from __future__ import annotations

import logging
import re

# A token of a Trusted Publisher is a JSON Web Token: parts with dots between them.
_TOKEN = re.compile(r"\bhf_[A-Za-z0-9_]{6,}(?:[.-][A-Za-z0-9_-]+)*|(?i:\bbearer\s+)\S+")
_PASSWORD = re.compile(r"(https?://)[^\s/?#'\"<>@]+@")  # of a mirror or a proxy
_QUERY = re.compile(r"(https?://[^\s?'\"<>]+)\?[^\s'\"<>]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_LONGEST = 300
_LOOKED_AT = 4096  # characters: what hides secrets takes time by their square


def clean(text: str) -> str:
    """What the Hub or a library says, fit for a message.

    One line without control characters, at most 300 letters, no token, and addresses without passwords and
    without what follows their `?`, which signs them.
    """
    one_line = _CONTROL.sub(" ", text[:_LOOKED_AT]).strip()
    hidden = _QUERY.sub(r"\1", without_password(_TOKEN.sub("(token)", one_line)))
    return hidden if len(hidden) <= _LONGEST else f"{hidden[:_LONGEST]}..."


def without_password(address: str) -> str:
    """An address as anybody may see it: without the account of a mirror that stands in it."""
    return _PASSWORD.sub(r"\1", address)


class _Cleaner(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = clean(record.getMessage()), ()
        return True


def clean_logs() -> None:
    """Let the same hold for what huggingface_hub logs; once is enough, twice does no harm."""
    for handler in logging.getLogger("huggingface_hub").handlers:
        if not any(isinstance(one, _Cleaner) for one in handler.filters):
            handler.addFilter(_Cleaner())
