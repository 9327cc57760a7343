from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest


@dataclass(eq=False)
class Recorder:
    """A source in memory that remembers every range that was read from it."""

    data: bytes
    name: str = "recorder"
    reads: list[tuple[int, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.data)

    def readinto(self, buffer: memoryview, offset: int) -> None:
        stop = offset + buffer.nbytes
        assert 0 <= offset <= stop <= len(self.data), "read beyond the source"
        buffer[:] = self.data[offset:stop]
        self.reads.append((offset, stop))

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        raise AssertionError("nothing here is remote")


@pytest.fixture(scope="session")
def recorder() -> Callable[..., Recorder]:
    """Make a source of those bytes."""
    return Recorder
