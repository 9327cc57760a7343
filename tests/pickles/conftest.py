from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from hfconvert.pickles.limits import DEFAULT
from hfconvert.pickles.machine import Unpickler
from hfconvert.pickles.rebuilds import REBUILDS
from hfconvert.pickles.stream import Stream


@dataclass(eq=False)
class Bytes:
    """A source in memory that remembers how many bytes were read from it."""

    data: bytes
    name: str = "hostile.pkl"
    reads: list[tuple[int, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.data)

    def readinto(self, buffer: memoryview, offset: int) -> None:
        assert 0 <= offset <= offset + buffer.nbytes <= self.size, "read beyond the source"
        buffer[:] = self.data[offset : offset + buffer.nbytes]
        self.reads.append((offset, offset + buffer.nbytes))

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        raise AssertionError("nothing here is remote")


@dataclass(frozen=True)
class Loaded:
    """The value of a pickle, and the unpickler that read it."""

    value: Any
    unpickler: Unpickler

    @property
    def verdicts(self) -> dict[str, str]:
        return {str(item): item.verdict for item in self.unpickler.imports}


@pytest.fixture(scope="session")
def source() -> Callable[..., Bytes]:
    """Make a source of those bytes."""
    return Bytes


@pytest.fixture(scope="session")
def loaded() -> Callable[..., Loaded]:
    """Read the first pickle in some bytes, with the real rebuilders and other limits if any are given."""

    def load(data: bytes, persistent: Any = None, **limits: int) -> Loaded:
        unpickler = Unpickler(REBUILDS, persistent, replace(DEFAULT, **limits))
        return Loaded(unpickler.load(Stream(Bytes(data), 0, len(data))), unpickler)

    return load
