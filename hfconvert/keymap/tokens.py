"""The pieces of a pattern, and the regular expression that matches them without backtracking."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

_TOKEN = re.compile(r"\{(?P<capture>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<star>\*)|(?P<literal>[^{}*]+)")


class Token(NamedTuple):
    """One piece of a pattern: literal text, the name of a capture, or a star."""

    kind: Literal["literal", "capture", "star"]
    text: str


def tokens_of(text: str) -> tuple[Token, ...]:
    """Cut a pattern into its pieces. ValueError, with the reason, where a brace does not fit."""
    tokens: list[Token] = []
    end = 0
    while end < len(text):
        found = _TOKEN.match(text, end)
        if found is None:
            message = (
                f"`{text[end]}` at character {end + 1} opens or closes no capture such as `{{i}}`"
            )
            raise ValueError(message)
        kind = found.lastgroup
        if kind == "capture":
            tokens.append(Token("capture", found["capture"]))
        else:
            tokens.append(Token("star" if kind == "star" else "literal", found[0]))
        end = found.end()
    return tuple(tokens)


def segments_of(tokens: Sequence[Token]) -> list[list[Token]]:
    """The pieces between the stars: one list more than there are stars."""
    segments: list[list[Token]] = [[]]
    for token in tokens:
        if token.kind == "star":
            segments.append([])
        else:
            segments[-1].append(token)
    return segments


def regex_of(tokens: Sequence[Token]) -> str:
    """A regular expression that covers a whole name as the pattern does.

    Groups are `c_x` for the capture x and `s_0`, `s_1`, ... for the stars. It needs wildcards that do not
    touch. Its time is at most quadratic in the name: a wildcard settles for the shortest text after which
    the literal text (or, for a star, everything up to the next star) fits, and is never tried again, since
    the next wildcard could take whatever a longer text would have taken. The lookahead is what keeps
    Python's `re` (3.10) from trying again.
    """
    first, *rest = segments_of(tokens)
    pieces = ["".join(_segment(first, last=not rest))]
    for number, segment in enumerate(rest):
        last = number == len(rest) - 1
        body = "".join(_segment(segment, last=last))
        star = f"(?P<s_{number}>.*?){body}"
        pieces.append(star if last else f"(?=(?P<g_{number}>{star}))(?P=g_{number})")
    return "".join(pieces) + r"\Z"


def _segment(tokens: Sequence[Token], *, last: bool) -> Iterator[str]:
    seen: set[str] = set()
    for place, (kind, text) in enumerate(tokens):
        after = tokens[place + 1].text if place + 1 < len(tokens) else ""
        if kind == "literal":
            yield re.escape(text)
        elif text in seen:
            yield f"(?P=c_{text})"
        elif after.startswith(".") or (last and place >= len(tokens) - 2):
            yield f"(?P<c_{text}>[^.]+)"  # only one length can fit
        else:
            yield f"(?=(?P<c_{text}>[^.]+?){re.escape(after)})(?P=c_{text})"
        seen.add(text if kind == "capture" else "")
