"""Long lists, a page at a time: the next page is in the `Link` header."""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence
from typing import Any

from tests.hub.loopback.messages import Answer, Request


def page(request: Request, items: Sequence[Any], size: int) -> Answer:
    """The page that the request's cursor names, of all the items."""
    start = int(request.one("cursor", "0"))
    headers = {}
    if start + size < len(items):
        query = {**request.query, "cursor": [str(start + size)]}
        target = f"{request.base_url}{request.path}?{urllib.parse.urlencode(query, doseq=True)}"
        headers["Link"] = f'<{target}>; rel="next"'
    return Answer.of(items[start : start + size], headers=headers)
