"""What was asked and what was sent: for tests that count."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tests.hub.loopback.messages import Request


@dataclass(eq=False, slots=True)
class Record:
    """One request and what was sent for it. `sent` counts bytes of the body, as they leave."""

    origin: str
    method: str
    path: str
    range: str | None
    had_token: bool
    user_agent: str
    token: str | None = None
    status: int = 0
    sent: int = 0


@dataclass(slots=True)
class Log:
    """All the requests, in the order in which they came."""

    records: list[Record] = field(default_factory=list)

    def open(self, request: Request) -> Record:
        """Begin the record of a request."""
        record = Record(
            request.origin,
            request.method,
            request.path,
            request.headers.get("range"),
            "authorization" in request.headers,
            request.headers.get("user-agent", ""),
            request.token,
        )
        self.records.append(record)
        return record

    def find(self, method: str = "", path: str = "", origin: str = "") -> list[Record]:
        """The requests of that method and origin whose path the regular expression is found in."""
        return [
            record
            for record in self.records
            if method in ("", record.method)
            and origin in ("", record.origin)
            and re.search(path, record.path)
        ]

    def sent(self, path: str = "", origin: str = "") -> int:
        """Bytes of bodies that were sent for such requests."""
        return sum(record.sent for record in self.find(path=path, origin=origin))

    @property
    def leaks(self) -> list[Record]:
        """Requests that brought a token to where it does not belong."""
        return [record for record in self.records if record.origin == "cdn" and record.had_token]

    def clear(self) -> None:
        """Forget everything so far."""
        self.records.clear()
