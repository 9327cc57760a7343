from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hfconvert.keymap.applied import Applied
from hfconvert.keymap.apply import step_function
from hfconvert.recipe import steps as forms
from hfconvert.recipe.steps import StepModel
from hfconvert.tensors.box import blocks, shape_of
from hfconvert.tensors.checkpoint import Checkpoint, found
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import LazyTensor, TensorSpec
from hfconvert.tensors.leaf import Leaf

Array = NDArray[Any]

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


class InMemory:
    """A source of bytes that a test holds."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.name = "memory"
        self.size = len(data)

    def readinto(self, buffer: memoryview, offset: int) -> None:
        assert offset + buffer.nbytes <= self.size, "read beyond the source"
        buffer[:] = self.data[offset : offset + buffer.nbytes]

    def stage(self, ranges: object) -> None:
        raise AssertionError("nothing here is remote")


DTYPES = {1: "U8", 2: "BF16", 4: "F32", 8: "I64"}


@pytest.fixture(scope="session")
def holding() -> Callable[[Mapping[str, Array]], Checkpoint]:
    """Make a checkpoint of those arrays, all in one source; unsigned integers stand for raw values."""

    def make(arrays: Mapping[str, Array]) -> Checkpoint:
        data = b"".join(array.tobytes() for array in arrays.values())
        source, start, tensors = InMemory(data), 0, {}
        for name, array in arrays.items():
            spec = TensorSpec(BY_CODE[DTYPES[array.dtype.itemsize]], array.shape)
            tensors[name] = Leaf.packed(spec, source, start)
            start += array.nbytes
        return found(tensors)

    return make


@pytest.fixture(scope="session")
def values() -> Callable[..., dict[str, Array]]:
    """Read all the tensors of a checkpoint, in blocks of at most `limit` bytes."""

    def read(checkpoint: Checkpoint, limit: int = 64) -> dict[str, Array]:
        return {name: _read(entry.tensor, limit) for name, entry in checkpoint.items()}

    return read


def _read(tensor: LazyTensor, limit: int) -> Array:
    assert tensor.spec.shape == tensor.extent
    whole = np.zeros(tensor.extent, tensor.spec.dtype.raw)
    for box in blocks(tensor.extent, tensor.spec.dtype.itemsize, limit, tensor.grain):
        block = np.zeros(shape_of(box), tensor.spec.dtype.raw)
        tensor.fill(block, box)
        whole[tuple(slice(lo, hi) for lo, hi in box)] = block
    return whole


@pytest.fixture(scope="session")
def step() -> Callable[[str, Any], StepModel]:
    """A step of a recipe, from its name and what stands under it; lists are tuples."""
    return lambda name, value: forms.STEPS[name].model_validate({name: value})


@pytest.fixture(scope="session")
def run() -> Callable[[StepModel, Checkpoint], Applied]:
    """Apply one step."""

    def apply(model: StepModel, checkpoint: Checkpoint) -> Applied:
        return step_function(model, lambda *path: ".".join(map(str, path)))(checkpoint)

    return apply
