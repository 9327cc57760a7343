"""Headers, directories and pickles of remote checkpoints, read by the readers through byte ranges."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save

from hfconvert.hub.client import connect
from hfconvert.hub.ranges import RemoteFile
from hfconvert.hub.source import pin
from hfconvert.readers.formats import read_file
from hfconvert.tensors.box import full
from hfconvert.tensors.lazy import LazyTensor
from tests.hub.huge import huge_safetensors, huge_torch
from tests.hub.loopback.server import RunningHub
from tests.hub.loopback.state import Content

NAMES = [
    f"model.layers.{layer}.mlp.{kind}_proj.weight"
    for layer in range(80)
    for kind in ("up", "down", "gate")
]
SHAPES = dict.fromkeys(NAMES, (8192, 26_000))  # 426 MB each, 102 GB in all
Open = Callable[[str, Content], Mapping[str, LazyTensor]]


@pytest.fixture
def tensors(hub: RunningHub, tmp_path: Path) -> Open:
    """The tensors of a remote file; after that the log has what listing them took."""

    def read(path: str, content: Content) -> Mapping[str, LazyTensor]:
        hub.repo("owner/m", {path: content})
        snapshot = pin(connect(), "owner/m")
        hub.log.clear()
        file = RemoteFile(snapshot, path, folder=tmp_path / "spool")
        return read_file(file, "auto").sets[0].tensors

    return read


@pytest.mark.parametrize(
    ("path", "make"), [("model.safetensors", huge_safetensors), ("pytorch_model.bin", huge_torch)]
)
def test_a_checkpoint_of_100_gb_is_listed_for_little(
    hub: RunningHub, tensors: Open, path: str, make: Callable[..., Content]
) -> None:
    found = tensors(path, make(SHAPES))
    assert list(found) == NAMES
    spec = found[NAMES[-1]].spec
    assert (spec.dtype.code, spec.shape) == ("BF16", (8192, 26_000))
    assert sum(tensor.spec.nbytes for tensor in found.values()) == 2 * prod((240, 8192, 26_000))
    assert hub.log.sent() < 2_000_000
    assert hub.log.leaks == []


def test_the_libraries_read_such_files(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load

    shapes = {"a": (3, 4), "b": (5,), "c": ()}
    blob = huge_torch(shapes)
    (tmp_path / "file").write_bytes(blob.read(0, blob.size))
    loaded = torch.load(tmp_path / "file", weights_only=True)
    again = huge_safetensors(shapes)
    for found in (loaded, load(again.read(0, again.size))):
        assert {name: tuple(tensor.shape) for name, tensor in found.items()} == shapes
        assert all(tensor.dtype == torch.bfloat16 for tensor in found.values())
        assert not any(tensor.any() for tensor in found.values())


@pytest.mark.parametrize("zipped", [True, False])
def test_values_of_torch_files_come_by_ranges(hub: RunningHub, tensors: Open, zipped: bool) -> None:
    import torch

    torch.manual_seed(0)
    weights = {f"w{number}": torch.randn(300, 1000) for number in range(10)}
    out = io.BytesIO()
    torch.save(weights, out, _use_new_zipfile_serialization=zipped)
    found = tensors("pytorch_model.bin", out.getvalue())
    listing = hub.log.sent()
    assert listing < 500_000
    assert np.array_equal(values(found["w7"], np.float32), weights["w7"].numpy())
    assert hub.log.sent() - listing < 1_300_000


def test_values_of_safetensors_come_by_ranges(hub: RunningHub, tensors: Open) -> None:
    weights = {f"w{number}": np.arange(300_000, dtype=np.float32) + number for number in range(10)}
    found = tensors("model.safetensors", save(weights))
    assert hub.log.sent() < 100_000
    assert np.array_equal(values(found["w7"], np.float32), weights["w7"])


def values(tensor: LazyTensor, dtype: type[np.float32]) -> NDArray[np.float32]:
    """All the values of a tensor, staged first."""
    box = full(tensor.extent)
    for part in tensor.needs(box):
        part.source.stage([(part.start, part.stop)])
    out = np.empty(tensor.extent, tensor.spec.dtype.raw)
    tensor.fill(out, box)
    return out.view(dtype)
