"""The hidden mark by which hfconvert knows its own work again: in pull requests, comments and commits."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

VERSION = 1
TRAILER = "Hfconvert"  # a git trailer, for commits without a pull request
_COMMENT = re.compile(r"<!-- hfconvert: (\{[^\n]*?\}) -->")
_TRAILER = re.compile(rf"^{TRAILER}: (\{{[^\n]*\}})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What a mark says: the digest of the conversion, and of its recipe alone; the weights that it makes, by
    their path without the number of a shard; the commit that it was put on.

    Of a comment that closes a pull request, `superseded_by` is the number of the one that took its place;
    `comment` names a comment that is edited and never repeated.
    """

    digest: str = ""
    recipe: str = ""
    weights: str = ""
    base: str = ""
    superseded_by: int | None = None
    comment: str = ""

    def as_comment(self) -> str:
        """For Markdown, where nobody sees it."""
        return f"<!-- hfconvert: {self._text()} -->"

    def as_trailer(self) -> str:
        """For the last lines of a commit message."""
        return f"{TRAILER}: {self._text()}"

    def _text(self) -> str:
        fields = {name: getattr(self, name) for name in self.__slots__}
        told = {name: value for name, value in fields.items() if value not in ("", None)}
        text = json.dumps({"v": VERSION, **told}, separators=(",", ":"))
        return text.replace("--", "-\\u002d")  # two hyphens may not stand in a comment


def read_marker(text: str) -> Marker | None:
    """The last mark in a text, comment or trailer; None where there is none that can be read.

    The last, since whatever a source may have put into a text stands before ours.
    """
    found = [*_COMMENT.finditer(text), *_TRAILER.finditer(text)]
    return _parse(max(found, key=lambda match: match.start())[1]) if found else None


def _parse(text: str) -> Marker | None:
    try:
        document = json.loads(text)
    except ValueError:
        return None
    if not isinstance(document, dict) or document.get("v") != VERSION:
        return None
    number = document.get("superseded_by")
    return Marker(
        digest=_word(document, "digest"),
        recipe=_word(document, "recipe"),
        weights=_word(document, "weights"),
        base=_word(document, "base"),
        superseded_by=number if isinstance(number, int) else None,
        comment=_word(document, "comment"),
    )


def _word(document: dict[str, Any], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""
