"""Routes: a method, a path with names in braces, and the function that answers."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.hub.loopback.messages import Answer, RefusedError, Request
from tests.hub.loopback.state import Hub

# `{repo}` is two segments, `{path}` all that is left; every other name is one segment.
PIECES = {"repo": "[^/]+/[^/]+", "path": ".+"}

Handler = Callable[..., Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """`handler(hub, request, **names)` answers what fits; names are percent-decoded."""

    methods: tuple[str, ...]
    pattern: re.Pattern[str]
    handler: Handler


def route(methods: str, path: str, handler: Handler) -> Route:
    """A route for methods such as `GET|HEAD`."""
    pieces = re.split(r"\{(\w+)\}", path)
    text = "".join(
        re.escape(piece) if index % 2 == 0 else f"(?P<{piece}>{PIECES.get(piece, '[^/]+')})"
        for index, piece in enumerate(pieces)
    )
    return Route(tuple(methods.split("|")), re.compile(text), handler)


def dispatch(hub: Hub, routes: Iterable[Route], request: Request) -> Answer:
    """Let the first route that fits answer."""
    for candidate in routes:
        match = candidate.pattern.fullmatch(request.path)
        if match and request.method in candidate.methods:
            names = {key: urllib.parse.unquote(value) for key, value in match.groupdict().items()}
            return candidate.handler(hub, request, **names)
    raise RefusedError(404, f"there is no {request.method} {request.path} here")
