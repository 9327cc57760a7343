from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from hfconvert.tensors.checkpoint import Checkpoint, found
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import RawArray, TensorSpec
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.source import LocalFile


@pytest.fixture
def leaf(tmp_path: Path) -> Callable[..., Leaf]:
    """A packed tensor of a dtype code, in a file of its own."""

    def make(code: str, values: RawArray) -> Leaf:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.raw"
        path.write_bytes(values.tobytes())
        spec = TensorSpec(BY_CODE[code], values.shape)
        return Leaf.packed(spec, LocalFile.of(path), 0)

    return make


@pytest.fixture
def checkpoint(leaf: Callable[..., Leaf]) -> Callable[[Mapping[str, str]], Checkpoint]:
    """A checkpoint of tensors of 4 elements, from dtype codes by name."""

    def make(codes: Mapping[str, str]) -> Checkpoint:
        return found(
            {name: leaf(code, np.zeros(4, BY_CODE[code].raw)) for name, code in codes.items()}
        )

    return make
