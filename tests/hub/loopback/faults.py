"""Faults: what goes wrong with the n-th request that matches a method and a path."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.hub.loopback.blobs import Blob, MemoryBlob
from tests.hub.loopback.messages import Answer, RefusedError, Request


@dataclass(frozen=True, slots=True)
class Say:
    """Answer this instead; the request is not carried out. A body of bytes is a web page, else JSON."""

    status: int
    message: str = ""
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None

    def answer(self) -> Answer:
        """A refusal, or a body with any status."""
        if isinstance(self.body, bytes):
            headers = {"Content-Type": "text/html", **self.headers}
            return Answer(self.status, headers, MemoryBlob(self.body), 0, len(self.body))
        if self.body is not None:
            return Answer.of(self.body, self.status, self.headers)
        refusal = RefusedError(self.status, self.message or "injected", self.code, self.headers)
        return Answer.refusing(refusal)


@dataclass(frozen=True, slots=True)
class Drop:
    """Break the connection after that many bytes of the body. None: before the request is carried out."""

    after: int | None = None


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """Carry the request out, then break the connection without a word of it."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Give only that many bytes of the body, as if that were all."""

    to: int


@dataclass(frozen=True, slots=True)
class Corrupt:
    """Change the byte of the body at that place."""

    at: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """Call this first, then go on as if nothing were: for what happens in between."""

    function: Callable[[Request], object]


@dataclass(frozen=True, slots=True)
class IgnoreRange:
    """Carry the request out as if it had no Range header, as some proxies do."""


Action = Say | Drop | LoseAnswer | Truncate | Corrupt | Call | IgnoreRange


@dataclass(slots=True)
class Fault:
    """An action for the matching requests number `nth` to `nth + times - 1`; `times` None: all from `nth`."""

    method: str
    path: re.Pattern[str]
    action: Action
    nth: int = 1
    times: int | None = 1
    seen: int = 0

    def strikes(self, request: Request) -> bool:
        """Count the request if it matches, and say whether its turn has come."""
        if request.method not in self.method.split("|") or not self.path.search(request.path):
            return False
        self.seen += 1
        last = None if self.times is None else self.nth + self.times
        return self.seen >= self.nth and (last is None or self.seen < last)


@dataclass(slots=True)
class Faults:
    """The table of faults; the first that strikes is the one that happens."""

    _table: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(
        self, method: str, path: str, action: Action, *, nth: int = 1, times: int | None = 1
    ) -> Fault:
        """Add a fault. `method` may be `GET|HEAD`, `path` a regular expression searched for in the path."""
        fault = Fault(method, re.compile(path), action, nth, times)
        with self._lock:
            self._table.append(fault)
        return fault

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._table.clear()

    def next(self, request: Request) -> Action | None:
        """What goes wrong with this request, or None."""
        with self._lock:
            struck = [fault.action for fault in self._table if fault.strikes(request)]
        return struck[0] if struck else None


def bend(answer: Answer, action: Action | None) -> Answer:
    """The answer as the fault makes it look."""
    if isinstance(action, Truncate):
        answer.stop = min(answer.stop, answer.start + action.to)
    if isinstance(action, Corrupt):
        data = bytearray(answer.body.read(answer.start, answer.stop))
        data[action.at] ^= 0xFF
        answer.body, answer.start, answer.stop = _memory(data), 0, len(data)
    return answer


def _memory(data: bytearray) -> Blob:
    return MemoryBlob(bytes(data))
