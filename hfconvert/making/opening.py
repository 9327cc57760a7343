"""How long it takes to open weights and hold the first of them: pickles before, safetensors after.

Both are opened by the readers of hfconvert, one right after the other, with their files cached: it is the
formats that are compared. torch.load is slower, since it reads or maps whole storages.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from hfconvert.planning.plan import Plan
from hfconvert.readers.formats import read_file
from hfconvert.report.model import Opening
from hfconvert.tensors.box import blocks, shape_of
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.source import LocalFile, SourceFile, read
from hfconvert.tensors.unreadable import Unreadable

BLOCK = 1 << 20  # bytes of the first tensor that are read
_MOST_TENSORS = 50_000  # above this, listing them anew takes longer than the figure is worth
_PICKLES = (b"PK\x03\x04", b"\x80")


def measure_opening(planned: Plan, folder: Path) -> Opening | None:
    """Measure once. None where the source is no plain pickle, or has very many tensors."""
    tensors = sum(len(shard.tensors) for shard in planned.shards)
    if not planned.pickles or not planned.shards or tensors > _MOST_TENSORS:
        return None
    source = planned.sources[0]
    if not bytes(read(source, 0, min(4, source.size))).startswith(_PICKLES):
        return None
    written = LocalFile.of(folder / planned.shards[0].file)
    return Opening(_seconds(source.apart()), _seconds(written))


def _seconds(file: SourceFile) -> float:
    started = time.perf_counter()
    contents = read_file(file, "auto")
    for weights in contents.sets:
        for tensor in weights.tensors.values():
            if not isinstance(tensor, Unreadable):
                _touch(tensor)
                return time.perf_counter() - started
    return time.perf_counter() - started


def _touch(tensor: LazyTensor) -> None:
    raw = tensor.spec.dtype.raw
    for box in blocks(tensor.extent, raw.itemsize, BLOCK, tensor.grain):
        tensor.fill(np.empty(shape_of(box), raw), box)
        return
