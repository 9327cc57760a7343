"""Section F: broken, partial and wrong downloads, of folders. (Single files: tests/readers.)"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

State = dict[str, torch.Tensor]
Convert = Callable[..., Any]
Store = Callable[..., Path]
Sharded = Callable[..., dict[str, Any]]

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4665a5ea423c2713d436b5ee50593a9640e0018c1550b5a0002f74190d6caea8\n"
    b"size 4096\n"
)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (POINTER, ["LFS pointer", "4096", "4665a5ea"]),
        (b"<!DOCTYPE html><html><body>Sign in</body></html>", ["HTML"]),
        (b"", ["empty"]),
        (b"\x08", ["model"]),
    ],
    ids=["pointer", "page", "empty", "one byte"],
)
def test_47_49_what_a_file_is_instead_is_said(
    store: Store, convert: Convert, name: str, content: bytes, said: list[str]
) -> None:
    """By the structure of the bytes: no message of a library is ever looked at."""
    done = convert(store({name: content}))
    assert done.code == 3
    errors = done.findings("error")
    assert name in errors
    assert [word for word in said if word.lower() not in errors.lower()] == []


@pytest.mark.parametrize("ending", ["bin", "safetensors"])
@pytest.mark.parametrize("keep", [0.3, 0.999])
def test_49_a_truncated_file(
    tiny: State, store: Store, convert: Convert, ending: str, keep: float
) -> None:
    name = {"bin": "pytorch_model.bin", "safetensors": "model.safetensors"}[ending]
    source = store({name: tiny})
    content = (source / name).read_bytes()
    (source / name).write_bytes(content[: int(len(content) * keep)])
    done = convert(source)
    assert done.code == 3
    assert name in done.findings("error")


@pytest.mark.parametrize(("stem", "ending"), [("pytorch_model", "bin"), ("model", "safetensors")])
def test_50_every_missing_shard_is_listed_before_any_work(
    tiny: State, store: Store, sharded: Sharded, convert: Convert, stem: str, ending: str
) -> None:
    files = sharded(tiny, 4, stem, ending)
    missing = [f"{stem}-0000{number}-of-00004.{ending}" for number in (2, 4)]
    for name in missing:
        del files[name]
    done = convert(store(files))
    assert done.code == 3
    errors = [one for one in done.document["findings"] if one["level"] == "error"]
    assert [Path(error["subject"]).name for error in errors] == missing
    assert all(error["message"].startswith("this file is missing") for error in errors)
    assert not list(done.output.parent.glob(".output.hfconvert"))


def flip(path: Path, tensor: torch.Tensor) -> None:
    """Flip one bit in the middle of a tensor's bytes."""
    content, data = bytearray(path.read_bytes()), tensor.numpy().tobytes()
    content[content.index(data) + len(data) // 2] ^= 0x10
    path.write_bytes(content)


def test_52_a_flipped_bit_in_a_zip_is_found_by_its_checksum(
    tiny: State, store: Store, convert: Convert
) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    source = store({"pytorch_model.bin": tiny})
    flip(source / "pytorch_model.bin", tiny[name])
    loaded = torch.load(source / "pytorch_model.bin", weights_only=True)
    assert not torch.equal(loaded[name], tiny[name])  # torch says nothing
    done = convert(source)
    assert done.code == 3
    assert "pytorch_model.bin: the checksum of 'pytorch_model/data/" in done.findings("error")


def test_52_of_what_is_dropped_nothing_is_asked(
    tiny: State, store: Store, convert: Convert
) -> None:
    name = "lm_head.weight"
    source = store({"pytorch_model.bin": tiny})
    flip(source / "pytorch_model.bin", tiny[name])
    done = convert(source, key_map=[{"drop": [name]}])
    assert done.holds({key: tensor for key, tensor in tiny.items() if key != name})


def test_52_without_a_full_check_it_is_not_looked_for(
    tiny: State, store: Store, convert: Convert
) -> None:
    source = store({"pytorch_model.bin": tiny})
    flip(source / "pytorch_model.bin", tiny["lm_head.weight"])
    done = convert(source, validate={"tensors": "off"})
    assert done.code == 0
    assert done.check("tensors")["status"] == "skipped"


def test_52_a_zip_without_checksums_is_read(tiny: State, store: Store, convert: Convert) -> None:
    """torch can save without them; there is nothing to compare with then."""
    from torch.utils.serialization import config

    config.save.use_pinned_memory_for_d2h = False
    computed = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        source = store({"pytorch_model.bin": tiny})
    finally:
        torch.serialization.set_crc32_options(computed)
    assert convert(source).holds(tiny)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "weights"])
def test_47_a_pointer_that_is_named_alone_is_no_recipe(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(POINTER)
    command = [sys.executable, "-m", "hfconvert", "run", str(path), "--output", str(tmp_path / "o")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 3, ran.stderr
    assert "LFS pointer" in ran.stderr


def test_weights_of_the_size_0_are_placeholders(
    tiny: State, store: Store, convert: Convert
) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    source = store({"pytorch_model.bin": {**tiny, name: torch.empty(0), "rest": torch.empty(0)}})
    done = convert(source)
    assert done.code == 3
    assert f"weights have the size 0: `{name}`" in done.findings("error")
    rest = convert(source, output="rest", key_map=[{"drop": [name]}])
    assert rest.code == 0  # an empty tensor of another name is one
