"""What came of holding merged tensors against the exact sums: the values that the `merge` check judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Norms(NamedTuple):
    """Sums of squares: of the update, and of what rounding took from the exact result."""

    update: float = 0.0
    lost: float = 0.0

    def plus(self, other: Norms) -> Norms:
        """Both together."""
        return Norms(self.update + other.update, self.lost + other.lost)


@dataclass(frozen=True, slots=True)
class Held:
    """What came of holding merged tensors against the exact sums."""

    tensors: int = 0
    values: int = 0
    wrong: tuple[str, ...] = ()
    norms: Mapping[str, Norms] = field(default_factory=dict)  # by family

    def __add__(self, other: Held) -> Held:
        names = dict.fromkeys((*self.norms, *other.norms))
        none = Norms()
        return Held(
            self.tensors + other.tensors,
            self.values + other.values,
            self.wrong + other.wrong,
            {name: self.norms.get(name, none).plus(other.norms.get(name, none)) for name in names},
        )
