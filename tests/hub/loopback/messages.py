"""What a route takes and gives: a request, an answer, and a refusal in the form that the Hub gives it."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from tests.hub.loopback.blobs import Blob, MemoryBlob

BLOCK = 1 << 18


class RefusedError(Exception):
    """The Hub says no: a status, the `X-Error-Code` that the client turns into an exception, a message."""

    def __init__(
        self, status: int, message: str, code: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"{status} {code} {message}")
        self.status, self.message, self.code = status, message, code
        self.headers = dict(headers or {})


@dataclass(slots=True)
class Answer:
    """A status, headers, and the part of a blob that is the body; `length` may promise another size."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Blob = MemoryBlob(b"")  # noqa: RUF009  # frozen and empty
    start: int = 0
    stop: int = 0

    @classmethod
    def of(cls, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
        """The value as JSON."""
        data = json.dumps(value).encode()
        merged = {"Content-Type": "application/json; charset=utf-8", **(headers or {})}
        return cls(status, merged, MemoryBlob(data), 0, len(data))

    @classmethod
    def refusing(cls, refusal: RefusedError) -> Answer:
        """A refusal, with the headers that the client reads."""
        headers = {"X-Error-Message": refusal.message, **refusal.headers}
        if refusal.code:
            headers["X-Error-Code"] = refusal.code
        return cls.of({"error": refusal.message}, refusal.status, headers)

    def blocks(self) -> Iterator[bytes]:
        """The body, a block at a time."""
        for start in range(self.start, self.stop, BLOCK):
            yield self.body.read(start, min(start + BLOCK, self.stop))


@dataclass(slots=True)
class Request:
    """One request. The path is as it came, percent-encoded; `token` is what the client authenticated with."""

    origin: str
    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    stream: Iterator[bytes]
    base_url: str

    @classmethod
    def parse(
        cls, origin: str, method: str, target: str, headers: Mapping[str, str], reader: BinaryIO
    ) -> Request:
        """Take a request apart; its body is read when a route asks for it."""
        path, _, query = target.partition("?")
        parsed = urllib.parse.parse_qs(query, keep_blank_values=True)
        base = f"http://{headers.get('host', '')}"
        lower = {name.lower(): value for name, value in headers.items()}
        return cls(origin, method, path, parsed, lower, _body(lower, reader), base)

    @property
    def token(self) -> str | None:
        """The bearer token, or None."""
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        return token if kind == "Bearer" and token else None

    def one(self, name: str, default: str = "") -> str:
        """The value of a query parameter that stands once."""
        return self.query.get(name, [default])[0]

    def flag(self, name: str) -> bool:
        """Whether a query parameter is set: `true`, `True` or `1`."""
        return self.one(name).lower() in ("true", "1")

    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.stream)

    def json(self) -> Any:
        """The body as JSON; an empty one is an empty object."""
        try:
            return json.loads(self.body() or b"{}")
        except ValueError as error:
            raise RefusedError(400, "the body is no JSON") from error

    def drain(self) -> None:
        """Read what is left of the body, so that the next request on the connection can begin."""
        for _ in self.stream:
            pass


def _body(headers: Mapping[str, str], reader: BinaryIO) -> Iterator[bytes]:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        yield from _chunked(reader)
        return
    left = int(headers.get("content-length", "0"))
    while left:
        block = reader.read(min(left, BLOCK))
        if not block:
            raise ConnectionError("the client went away within the body")
        left -= len(block)
        yield block


def _chunked(reader: BinaryIO) -> Iterator[bytes]:
    while size := int(reader.readline().split(b";")[0] or b"0", 16):
        yield reader.read(size)
        reader.readline()
    while reader.readline().strip():
        pass
