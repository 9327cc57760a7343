"""Parts of files: the `Range` header, for one range."""

from __future__ import annotations

import re

from tests.hub.loopback.blobs import Blob
from tests.hub.loopback.messages import Answer, RefusedError, Request

ONE_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def serve(request: Request, blob: Blob, headers: dict[str, str]) -> Answer:
    """The blob or the part of it that the request asks for. Refused (416) where that begins after its end."""
    headers = {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream", **headers}
    match = ONE_RANGE.fullmatch(request.headers.get("range", ""))
    if not match or not any(match.groups()):
        return Answer(200, headers, blob, 0, blob.size)
    first, last = match.groups()
    start = int(first) if first else max(0, blob.size - int(last))
    stop = min(int(last) + 1, blob.size) if first and last else blob.size
    if start >= blob.size or stop <= start:
        unsatisfied = {"Content-Range": f"bytes */{blob.size}"}
        raise RefusedError(416, "Range Not Satisfiable", "", unsatisfied)
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{blob.size}"
    return Answer(206, headers, blob, start, stop)
