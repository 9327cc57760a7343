"""The metadata at the top of a model card, changed by lines: comments, order and spelling stay."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_HEAD = re.compile(
    r"\ufeff?---[ \t]*\r?\n(?P<head>.*?)^---[ \t]*(\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_PLAIN = re.compile(r"[A-Za-z][\w.-]*(/[\w.-]+)?\Z")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def split_card(text: str) -> tuple[str, str]:
    """The lines between the `---` at the top, and everything after them; no lines where there are none."""
    found = _HEAD.match(text)
    return (found["head"], text[found.end() :]) if found else ("", text)


def join_card(head: str, body: str) -> str:
    """The card from its two parts."""
    return f"---\n{head}---\n{body}" if head else body


def put_key(head: str, key: str, value: str | Sequence[str]) -> str:
    """The metadata with a key at their end; unchanged where they have it."""
    if re.search(rf"^{re.escape(key)}[ \t]*:", head, re.MULTILINE):
        return head
    start = head if not head or head.endswith("\n") else f"{head}\n"
    if isinstance(value, str):
        return f"{start}{key}: {_scalar(value)}\n"
    return f"{start}{key}:\n" + "".join(f"- {_scalar(one)}\n" for one in value)


def without_key(head: str, key: str) -> str:
    """The metadata without a key and all that belongs to it."""
    return re.sub(
        rf"^{re.escape(key)}[ \t]*:.*(\r?\n([ \t-].*|[ \t]*(?=\r?\n)))*(\r?\n|\Z)",
        "",
        head,
        flags=re.MULTILINE,
    )


def _scalar(text: str) -> str:
    """As YAML reads it as this very text."""
    return text if _PLAIN.match(text) and text.lower() not in _WORDS else json.dumps(text)
