"""Text out of files, as it may be shown: no name of a tensor or file acts on a terminal or begins a line."""

from __future__ import annotations


def one_line(text: str) -> str:
    """The text with everything that is not printable as an escape, ends of lines too."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def lines(text: str) -> str:
    """The same for text of several lines, which stay lines."""
    return "\n".join(map(one_line, text.split("\n")))
