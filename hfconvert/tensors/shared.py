"""Work that several threads draw from."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


class Shared(Iterator[T]):
    """An iterator that several threads may draw from; each item goes to one of them."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._lock = threading.Lock()

    def __next__(self) -> T:
        with self._lock:
            return next(self._items)
