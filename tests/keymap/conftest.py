from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from hfconvert.tensors.checkpoint import Checkpoint, found
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf

Make = Callable[[Iterable[str]], Checkpoint]


class Nowhere:
    """A source that no test of names may read from."""

    name = "nowhere"
    size = 0

    def readinto(self, buffer: memoryview, offset: int) -> None:
        raise AssertionError("a step over names read a value")

    def stage(self, ranges: object) -> None:
        raise AssertionError("a step over names staged a value")


@pytest.fixture
def checkpoint() -> Make:
    """Make a checkpoint of those names, each a tensor [2] of its own."""

    def make(names: Iterable[str]) -> Checkpoint:
        spec = TensorSpec(BY_CODE["F32"], (2,))
        source = Nowhere()
        return found({name: Leaf.packed(spec, source, 8 * i) for i, name in enumerate(names)})

    return make


@pytest.fixture
def where() -> Callable[..., str]:
    """Positions as a recipe gives them, in a form that a test can read."""
    return lambda *path: ".".join(map(str, path)) or "step"
