"""Files that are no checkpoint are named for what they are."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

from hfconvert.errors import Exit, UserError
from hfconvert.readers.formats import read_file
from hfconvert.readers.torch_sniff import recognize

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ones(3))
    return buffer.getvalue()


STRANGERS = {
    "empty": (b"", "the file is empty"),
    "pointer": (POINTER, r"Git LFS pointer, 70 bytes; expected 12345 bytes, oid sha256:4d7a"),
    "html": (b"\n<!DOCTYPE html><html>Not found</html>", "HTML or XML page"),
    "xml": (b"<?xml version='1.0'?><Error/>", "HTML or XML page"),
    "json": (b'{"error": "Repository not found"}', "it is JSON"),
    "gguf": (b"GGUF\x03\0\0\0" + bytes(50), "GGUF file of llama.cpp"),
    "ggml": (b"lmgg" + bytes(50), "GGML file"),
    "ctranslate2": (
        b"\x06\0\0\0\x10\0TransformerSpec\0" + bytes(50),
        "a CTranslate2 model, not a PyTorch checkpoint",
    ),
    "onnx": (b"\x08\x07\x12\x07pytorch" + bytes(50), "an ONNX model, not a PyTorch"),
    "flax": (b"\x82\xa6params\x81" + bytes(50), "a msgpack file"),
    "tensorflow lite": (b"\x1c\0\0\0TFL3" + bytes(50), "a TensorFlow Lite model"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(50), "HDF5"),
    "numpy": (npy(), "numpy array file"),
    "noise": (b"\xfe\xed" * 40, "80 bytes of no known format"),
    "three bytes": (b"abc", "3 bytes of no known format"),
    "text": (b"global_step10", "not a checkpoint"),
    "zip cut off": (b"PK\x03\x04" + bytes(100), "zip without an end"),
}


@pytest.mark.parametrize("case", STRANGERS)
def test_what_it_is(kit: Any, case: str) -> None:
    data, match = STRANGERS[case]
    with pytest.raises(UserError, match=match) as caught:
        kit.open(data, "pytorch_model.bin")
    assert caught.value.exit is Exit.SOURCE
    assert caught.value.problems[0].subject == "pytorch_model.bin"
    assert caught.value.problems[0].why
    assert caught.value.problems[0].do


@pytest.mark.parametrize(
    "value", [{"a": 1, "b": [1, 2]}, [1, 2, 3], "text", {"tokens": {"a": 0}}], ids=str
)
def test_a_pickle_of_other_things_holds_no_weights(kit: Any, value: object) -> None:
    found = kit.open(pickle.dumps(value, 4))
    assert found.found.sets == ()
    assert {item.verdict for item in found.file.imports} <= {"inert"}


class Regression:
    """A model of another library: attributes, and no tensor."""

    def __init__(self) -> None:
        self.slope = 2.0


def test_objects_of_another_program_are_named(kit: Any) -> None:
    refusal = read_file(kit.source(pickle.dumps(Regression()), "model.pkl"), "auto").refusal
    assert refusal is not None
    assert f"made of {Regression.__module__}.Regression" in refusal.problems[0].why


@pytest.mark.parametrize("case", ["empty", "pointer", "html", "gguf"])
def test_under_the_name_of_safetensors_too(kit: Any, case: str) -> None:
    data, match = STRANGERS[case]
    with pytest.raises(UserError, match=match):
        read_file(kit.source(data, "model.safetensors"), "auto")


def test_content_decides_before_the_name(kit: Any) -> None:
    weights = {"w": torch.ones(2)}
    for data in (kit.save(weights), kit.save(weights, legacy=True)):
        assert read_file(kit.source(data, "model.safetensors"), "auto").format == "torch"
    assert read_file(kit.source(save(weights), "model.bin"), "auto").container == "safetensors"


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (b'{"a": 1}', "json"),
        (b"[1, 2]", "json"),
        (b"[PAD]\n[UNK]\n", "text"),
        ("naïve".encode()[:3], "text"),  # cut within a letter
        (b"plain\n", "text"),
        (bytes(range(128, 200)), None),
        (b"a\0b", None),
    ],
)
def test_text_is_never_known_for_sure(head: bytes, code: str | None) -> None:
    found = recognize(head)
    assert (found.code if found else None) == code
    assert found is None or not found.known
