from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from hfconvert.errors import Exit, UserError
from hfconvert.readers.safetensors_file import read_safetensors
from hfconvert.tensors.box import full
from hfconvert.tensors.source import LocalFile

TENSORS = {
    "b.weight": torch.arange(12, dtype=torch.float32).reshape(3, 4),
    "a.bias": torch.tensor(7, dtype=torch.int64),
    "c": torch.zeros(0, 5, dtype=torch.bfloat16),
    "d": torch.tensor([True, False]),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_file(TENSORS, tmp_path / "model.safetensors", metadata={"format": "pt", "note": "x"})
    return tmp_path / "model.safetensors"


def test_every_tensor_is_there_with_its_values(path: Path) -> None:
    contents = read_safetensors(LocalFile.of(path))
    (weights,) = contents.sets
    assert (contents.format, contents.container) == ("safetensors", "safetensors")
    assert contents.metadata == {"format": "pt", "note": "x"}
    assert contents.pickle is None
    assert weights.name == contents.default == ""
    assert set(weights.tensors) == set(TENSORS)
    assert weights.nbytes == 48 + 8 + 0 + 2
    for name, tensor in weights.tensors.items():
        assert tensor.spec.shape == tuple(TENSORS[name].shape)
        values = np.empty(tensor.extent, tensor.spec.dtype.raw)
        tensor.fill(values, full(tensor.extent))
        assert values.tobytes() == bytes(TENSORS[name].reshape(-1).view(torch.uint8).tolist())


def test_tensors_come_in_the_order_of_their_bytes(path: Path) -> None:
    (weights,) = read_safetensors(LocalFile.of(path)).sets
    starts = [
        part.start
        for tensor in weights.tensors.values()
        for part in tensor.needs(full(tensor.extent))
    ]
    assert starts == sorted(starts)


def test_a_truncated_file_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match="end at byte") as caught:
        read_safetensors(LocalFile.of(path))
    assert caught.value.exit == Exit.SOURCE
    assert caught.value.problems[0].subject == "model.safetensors"


def test_no_metadata_is_an_empty_map(tmp_path: Path) -> None:
    save_file({"w": torch.ones(2)}, tmp_path / "w.safetensors")
    assert read_safetensors(LocalFile.of(tmp_path / "w.safetensors")).metadata == {}
