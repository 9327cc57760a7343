"""Change single values of a JSON text and leave every other character as it is.

Order of keys, indentation, escapes and the way numbers are written survive; a parser and a writer would
change some of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

KeyPath = tuple[str, ...]


class Removed:
    """Stands for the value of a key that is to go."""


REMOVED = Removed()

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def replace_values(content: bytes, values: Mapping[KeyPath, Any]) -> bytes:
    """The text with the value at each path replaced; a key that its object lacks is added behind the last.

    A key whose value is REMOVED goes, with the comma that belongs to it.
    `content` is valid JSON, an object at the top, in any encoding that JSON has; so is the result. Every
    path but its last key leads through objects that are there. ValueError where one is not.
    """
    encoding = json.detect_encoding(content)
    text = content.decode(encoding, "surrogatepass")
    edits = sorted(_edits(text, values), reverse=True)
    for start, stop, new in edits:
        text = text[:start] + new + text[stop:]
    return text.encode(encoding, "surrogatepass")


Edit = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    begin: int  # behind the brace or comma in front of it
    before: str  # the space in front of the key
    start: int  # of the value
    stop: int


def _edits(text: str, values: Mapping[KeyPath, Any]) -> Iterator[Edit]:
    """Where to put what; of a key that stands twice, both values change."""
    for path, value in values.items():
        objects = [_skip(text, 0)]
        for key in path[:-1]:
            objects = [
                member.start
                for at in objects
                for member in _members(text, at)
                if member.key == key and text[member.start] == "{"
            ]
        if not objects:
            raise ValueError(f"no object at {path[:-1]}")
        for at in objects:
            if value is REMOVED:
                yield from _take(text, at, path[-1])
            else:
                yield from _put(text, at, path[-1], json.dumps(value))


def _put(text: str, at: int, key: str, value: str) -> Iterator[Edit]:
    members = list(_members(text, at))
    present = [member for member in members if member.key == key]
    for member in present:
        yield member.start, member.stop, value
    if present:
        return
    if members:
        end = members[-1].stop
        yield end, end, f",{members[-1].before}{json.dumps(key)}: {value}"
    else:
        yield at + 1, at + 1, f"{json.dumps(key)}: {value}"


def _take(text: str, at: int, key: str) -> Iterator[Edit]:
    """From behind the comma or brace before the key to the comma behind its value, or to the last before."""
    members = list(_members(text, at))
    for number, member in enumerate(members):
        if member.key != key:
            continue
        if number + 1 < len(members):
            yield member.begin, members[number + 1].begin, ""
        else:
            begin = members[number - 1].stop if number else member.begin
            yield begin, member.stop, ""


def _members(text: str, at: int) -> Iterator[_Member]:
    """The members of the object that begins at a position."""
    position = at + 1
    while True:
        key_at = _skip(text, position)
        if text[key_at] == "}":
            return
        key, colon = _DECODER.raw_decode(text, key_at)
        start = _skip(text, _skip(text, colon) + 1)
        _, stop = _DECODER.raw_decode(text, start)
        yield _Member(key, position, text[position:key_at], start, stop)
        comma = _skip(text, stop)
        if text[comma] == "}":
            return
        position = comma + 1


def _skip(text: str, position: int) -> int:
    """The first position from here on that is no space."""
    found = _SPACE.match(text, position)
    return found.end() if found else position
