from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from hfconvert.inspect.facts import inspect
from tests.written_files import write_files

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def trained() -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """A linear layer and the state of its optimizer after a step."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    return dict(model.state_dict()), optimizer.state_dict()


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[Mapping[str, Any]], Path]:
    """A folder of files by their places: bytes as they are, JSON, safetensors, else by `torch.save`."""

    def write(files: Mapping[str, Any]) -> Path:
        return write_files(tmp_path / "source", files)

    return write


class Looked:
    """The document of a folder, and short ways into it."""

    def __init__(self, path: Path) -> None:
        self.document: dict[str, Any] = json.loads(json.dumps(inspect(str(path))))

    def __getitem__(self, key: str) -> Any:
        return self.document[key]

    def file(self, name: str) -> dict[str, Any]:
        (found,) = (one for one in self.document["files"] if one["file"] == name)
        assert isinstance(found, dict)
        return found

    def roles(self) -> dict[str, str]:
        return {one["file"]: one["role"] for one in self.document["files"]}

    def said(self, level: str) -> str:
        found = self.document["problems"]
        return "\n".join(
            f"{one['subject']}: {one['message']}" for one in found if one["level"] == level
        )


@pytest.fixture
def look(folder: Callable[[Mapping[str, Any]], Path]) -> Callable[..., Looked]:
    """Write a folder and look at it, or at one file of it."""

    def call(files: Mapping[str, Any], name: str = "") -> Looked:
        return Looked(folder(files) / name)

    return call


@pytest.fixture
def strangers() -> dict[str, tuple[bytes, str]]:
    """Files of other programs by name: what they begin with, and the format that is told."""
    spec = b"TransformerSpec\0"
    ct2 = struct.pack("<IH", 6, len(spec)) + spec + bytes(40)
    return {
        "ggml-model.bin": (b"lmgg" + bytes(60), "ggml"),
        "model-q4.bin": (b"GGUF\x03\0\0\0" + bytes(60), "gguf"),
        "model.bin": (ct2, "ctranslate2"),
        "graph.bin": (b"\x08\x07\x12\x07pytorch\x1a\x052.0.1" + bytes(40), "onnx"),
        "lite.bin": (b"\x1c\0\0\0TFL3" + bytes(60), "tflite"),
        "flax.bin": (b"\x82\xa6params\x81" + bytes(60), "msgpack"),
        "tf_model.h5": (b"\x89HDF\r\n\x1a\n" + bytes(60), "hdf5"),
        "page.bin": (b"<!DOCTYPE html><html>Sign in</html>", "html"),
        "pointer.bin": (POINTER, "lfs-pointer"),
        "nothing.bin": (b"", "empty"),
    }


@pytest.fixture
def kinds() -> dict[str, tuple[dict[str, Any], str]]:
    """Folders of every kind, with the kind."""
    weights, optimizer = trained()
    lora = {
        f"base_model.model.q.lora_{part}.weight": torch.ones(shape)
        for part, shape in (("A", (2, 4)), ("B", (3, 2)))
    }
    plain = {name: tensor + 1 for name, tensor in weights.items()}
    settings = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["v", "q"]}
    return {
        "model": ({"pytorch_model.bin": weights}, "model"),
        "training file": ({"last.pt": {"model": weights, "optimizer": optimizer}}, "training"),
        "training folder": ({"model.safetensors": weights, "optimizer.pt": optimizer}, "training"),
        "optimizer alone": ({"optimizer.pt": optimizer}, "training"),
        "adapter": (
            {"adapter_model.bin": lora, "adapter_config.json": settings},
            "adapter",
        ),
        "mixed": (
            {"pytorch_model.bin": {**plain, "q.lora_A.default.weight": torch.ones(2)}},
            "mixed",
        ),
        "quantized by name": (
            {"model.safetensors": {"a.qweight": torch.ones(2, dtype=torch.int32)}},
            "quantized",
        ),
        "quantized by configuration": (
            {"model.safetensors": plain, "config.json": {"quantization_config": {"bits": 4}}},
            "quantized",
        ),
        "settings": ({"settings.bin": pickle.dumps({"lr": 1})}, "unknown"),
        "nothing": ({"README.md": b"# hello\n"}, "unknown"),
    }
