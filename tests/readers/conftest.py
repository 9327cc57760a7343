from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from hfconvert.readers.state_dict import Sets, read_sets
from hfconvert.readers.torch_file import TorchFile, read_torch
from hfconvert.tensors.box import blocks, full
from hfconvert.tensors.lazy import LazyTensor


@dataclass(eq=False)
class Bytes:
    """A source in memory that remembers every range that was read from it."""

    data: bytes
    name: str = "model.pt"
    reads: list[tuple[int, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.data)

    def readinto(self, buffer: memoryview, offset: int) -> None:
        stop = offset + buffer.nbytes
        assert 0 <= offset <= stop <= self.size, "read beyond the source"
        buffer[:] = self.data[offset:stop]
        self.reads.append((offset, stop))

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        assert all(0 <= start <= stop <= self.size for start, stop in ranges)


@dataclass(frozen=True)
class Opened:
    """A file that was read: the source, what is in it, its sets of weights."""

    source: Bytes
    file: TorchFile
    found: Sets

    @property
    def tensors(self) -> Mapping[str, LazyTensor]:
        assert len(self.found.sets) == 1
        return self.found.sets[0].tensors

    @property
    def dangerous(self) -> list[str]:
        return [str(item) for item in self.file.imports if item.verdict == "dangerous"]

    @property
    def messages(self) -> str:
        return " | ".join(item.message for item in (*self.file.findings, *self.found.findings))


class Kit:
    """What tests of the readers of PyTorch files share."""

    @staticmethod
    def source(data: bytes, name: str = "model.pt") -> Bytes:
        """Those bytes as a source."""
        return Bytes(data, name)

    @staticmethod
    def open(data: bytes, name: str = "model.pt") -> Opened:
        """Read a file from its bytes."""
        source = Bytes(data, name)
        file = read_torch(source)
        return Opened(source, file, read_sets(file.tree, name))

    @staticmethod
    def save(value: Any, *, protocol: int = 2, legacy: bool = False) -> bytes:
        """What `torch.save` writes."""
        import torch

        buffer = io.BytesIO()
        torch.save(
            value, buffer, pickle_protocol=protocol, _use_new_zipfile_serialization=not legacy
        )
        return buffer.getvalue()

    @staticmethod
    def values(tensor: LazyTensor, limit: int = 1 << 20) -> bytes:
        """The packed values of a lazy tensor, filled in blocks of so many bytes."""
        out = np.empty(tensor.extent, tensor.spec.dtype.raw)
        for box in blocks(tensor.extent, out.dtype.itemsize, limit, tensor.grain):
            part: Any = (..., *(slice(lo, hi) for lo, hi in box))
            tensor.fill(out[part], box)
        return out.tobytes()

    @staticmethod
    def raw(tensor: Any) -> bytes:
        """The packed values of a torch tensor, flags resolved."""
        import torch

        plain = tensor.detach().resolve_conj().resolve_neg()
        packed = torch.empty(plain.numel(), dtype=plain.dtype).copy_(plain.reshape(-1))
        return bytes(packed.view(torch.uint8).numpy().tobytes())

    @staticmethod
    def reads_what_it_needs(tensor: LazyTensor, source: Bytes) -> bool:
        """Whether filling a tensor reads nothing but what it says it needs."""
        box = full(tensor.extent)
        needed = [(part.start, part.stop) for part in tensor.needs(box)]
        source.reads.clear()
        tensor.fill(np.empty(tensor.extent, tensor.spec.dtype.raw), box)
        return all(
            any(low <= start and stop <= high for low, high in needed)
            for start, stop in source.reads
        )

    @staticmethod
    def elsewhere(tensor: LazyTensor) -> bytes:
        """The packed values by `where`, element by element."""
        mesh = tuple(np.arange(size, dtype=np.int64) for size in tensor.extent)
        out = np.empty(tensor.extent, tensor.spec.dtype.raw)
        for place in tensor.where(mesh):
            part = np.empty(tuple(len(step) for step in place.steps), place.dtype.raw)
            for index in np.ndindex(part.shape):
                number = sum(int(step[i]) for step, i in zip(place.steps, index, strict=True))
                one = np.empty(1, place.dtype.raw)
                view = memoryview(one.view(np.uint8))
                place.source.readinto(view, place.start + number * place.itemsize)
                part[index] = one[0]
            out[np.ix_(*place.select)] = part
        return out.tobytes()


@pytest.fixture(scope="session")
def kit() -> Kit:
    return Kit()
