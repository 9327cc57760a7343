"""A few values that are costly to make, kept while they are in use: memory stays bounded by their number."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")
KEPT = 2  # one for each worker


class Recent(Generic[Value]):
    """The values that were asked for last, by name; the one that was not used longest makes room."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._values: OrderedDict[str, Value] = OrderedDict()

    def get(self, name: str, make: Callable[[], Value]) -> Value:
        """The value of that name, made if it is not there. Others wait while one is made."""
        with self._lock:
            if name not in self._values:
                while len(self._values) >= self._kept:
                    self._values.popitem(last=False)
                self._values[name] = make()
            self._values.move_to_end(name)
            return self._values[name]
