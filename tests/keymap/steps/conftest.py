from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from hfconvert.checks.gather import values_at
from hfconvert.readers.state_dict import read_sets
from hfconvert.readers.torch_file import read_torch
from hfconvert.tensors.box import blocks, full
from hfconvert.tensors.checkpoint import Checkpoint, found
from hfconvert.tensors.lazy import LazyTensor


class Saved:
    """What `torch.save` wrote, in memory; remembers every range that was read."""

    name = "model.pt"

    def __init__(self, value: Any) -> None:
        import torch

        buffer = io.BytesIO()
        torch.save(value, buffer)
        self.data = buffer.getvalue()
        self.size = len(self.data)
        self.reads: list[tuple[int, int]] = []

    def readinto(self, buffer: memoryview, offset: int) -> None:
        buffer[:] = self.data[offset : offset + buffer.nbytes]
        self.reads.append((offset, offset + buffer.nbytes))

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        return None


@pytest.fixture(scope="session")
def plain() -> Callable[[Mapping[str, Any]], Checkpoint]:
    """The checkpoint of a state dict, as it is read from what `torch.save` writes."""

    def read(state: Mapping[str, Any]) -> Checkpoint:
        source = Saved(dict(state))
        return found(read_sets(read_torch(source).tree, source.name).sets[0].tensors)

    return read


class Kit:
    """Values of lazy tensors by both routes."""

    @staticmethod
    def values(tensor: LazyTensor, limit: int = 1 << 20) -> bytes:
        """The packed values, filled in blocks of so many bytes."""
        out = np.empty(tensor.extent, tensor.spec.dtype.raw)
        for box in blocks(tensor.extent, out.dtype.itemsize, limit, tensor.grain):
            part: Any = (..., *(slice(lo, hi) for lo, hi in box))
            tensor.fill(out[part], box)
        return out.tobytes()

    @staticmethod
    def elsewhere(tensor: LazyTensor) -> bytes:
        """The packed values by `where`, read by the code of the checks."""
        mesh = tuple(np.arange(size, dtype=np.int64) for size in tensor.extent)
        out = np.empty(tensor.extent, tensor.spec.dtype.raw)
        for place in tensor.where(mesh):
            out[np.ix_(*place.select) if place.select else ()] = values_at(place)
        return out.tobytes()

    @staticmethod
    def raw(tensor: Any) -> bytes:
        """The packed values of a torch tensor."""
        import torch

        packed = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1))
        return bytes(packed.view(torch.uint8).numpy().tobytes())

    @staticmethod
    def reads_what_it_needs(tensor: LazyTensor, source: Saved) -> bool:
        """Whether filling a tensor reads nothing but what it says it needs."""
        box = full(tensor.extent)
        needed = [(part.start, part.stop) for part in tensor.needs(box)]
        source.reads.clear()
        tensor.fill(np.empty(tensor.extent, tensor.spec.dtype.raw), box)
        return bool(source.reads) and all(
            any(low <= start and stop <= high for low, high in needed)
            for start, stop in source.reads
        )


@pytest.fixture(scope="session")
def kit() -> Kit:
    return Kit()
