"""What casts lose, counted while they are made: values that overflow, values that underflow to zero."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import NamedTuple


class Loss(NamedTuple):
    """Of a tensor that was cast: values that became infinite or NaN, values that became zero, all values."""

    overflow: int
    underflow: int
    values: int


class Tally:
    """Losses by tensor; blocks of one tensor are counted by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._losses: dict[str, Loss] = {}

    def add(self, name: str, loss: Loss) -> None:
        """Count what a block of the tensor lost."""
        with self._lock:
            before = self._losses.get(name, Loss(0, 0, 0))
            sums = (one + other for one, other in zip(before, loss, strict=True))
            self._losses[name] = Loss(*sums)

    def take(self, names: Iterable[str]) -> dict[str, Loss]:
        """Those of the tensors that lost something; their counting begins anew."""
        with self._lock:
            taken = {name: self._losses.pop(name) for name in names if name in self._losses}
        return {name: loss for name, loss in taken.items() if loss.overflow or loss.underflow}
