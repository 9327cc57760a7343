"""What casts lose, counted while they are made: values that overflow, values that underflow to zero."""

from __future__ import annotations

import threading
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

    def take(self) -> dict[str, Loss]:
        """The tensors that lost something since this was last asked; counting begins anew."""
        with self._lock:
            taken, self._losses = self._losses, {}
        return {name: loss for name, loss in taken.items() if loss.overflow or loss.underflow}
