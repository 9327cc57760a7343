"""Zeros as a source, for rows that a step adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf


@dataclass(frozen=True, slots=True)
class Zeros:
    """As many zero bytes as asked for; nothing is read."""

    size: int
    name: str = "(zeros)"

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Fill the buffer with zeros."""
        buffer[:] = bytes(buffer.nbytes)

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Nothing to do."""


def zeros(spec: TensorSpec) -> Leaf:
    """A tensor of zeros."""
    return Leaf.packed(spec, Zeros(spec.nbytes), 0)
