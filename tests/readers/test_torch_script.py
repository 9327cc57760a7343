"""TorchScript archives and packages: parameters, buffers, constants; the code in them is not looked at."""

from __future__ import annotations

import io
import warnings
from typing import Any

import pytest
import torch

from hfconvert.readers.torch_zip import read_directory


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        self.head = torch.nn.Linear(4, 3)
        self.register_buffer("scale", torch.tensor(2.0, dtype=torch.float16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.head(self.body(x))) + torch.tensor([1.0, 2.0, 3.0])


@pytest.fixture(scope="module")
def script() -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        buffer = io.BytesIO()
        torch.jit.save(torch.jit.trace(Net().eval(), torch.ones(2, 3)), buffer)
    return buffer.getvalue()


def test_parameters_and_buffers_by_their_names(kit: Any, script: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = torch.jit.load(io.BytesIO(script)).state_dict()
    found = kit.open(script)
    assert found.file.container == "torchscript"
    held = {one.name: one.tensors for one in found.found.sets}
    tensors = held["parameters"]
    assert set(tensors) == set(expected)
    for name, tensor in expected.items():
        assert kit.values(tensors[name]) == kit.raw(tensor), name


def test_constants_are_a_set_of_their_own(kit: Any, script: bytes) -> None:
    found = kit.open(script).found
    assert [one.name for one in found.sets] == ["parameters", "constants"]
    assert found.default == "parameters"
    assert b"".join(kit.values(lazy) for lazy in found.sets[1].tensors.values()) == kit.raw(
        torch.tensor([1.0, 2.0, 3.0])
    )


def test_nothing_of_the_code_is_read(kit: Any, script: bytes) -> None:
    found = kit.open(script)
    _, entries = read_directory(found.source)
    code = [entry for name, entry in entries.items() if "/code/" in name]
    assert code
    reads = kit.open(script).source.reads
    for entry in code:
        inside = range(entry.start, entry.start + entry.packed)
        assert not any(start in inside for start, _ in reads)


def test_a_package(kit: Any) -> None:
    from torch.package.package_exporter import PackageExporter

    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with PackageExporter(buffer) as exporter:
            exporter.extern("**")
            exporter.save_pickle(
                "model", "model.pkl", {"w": torch.arange(3.0), "n": torch.ones(2).int()}
            )
            exporter.save_text("model", "notes.txt", "hello")
    found = kit.open(buffer.getvalue())
    assert found.file.container == "package"
    assert {name: kit.values(lazy) for name, lazy in found.tensors.items()} == {
        "w": kit.raw(torch.arange(3.0)),
        "n": kit.raw(torch.ones(2).int()),
    }
