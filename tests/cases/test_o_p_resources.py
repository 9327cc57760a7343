"""Sections O and P, as far as they need no Hub: full disks, one copy, no model class in between."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

State = dict[str, torch.Tensor]
Convert = Callable[..., Any]
Store = Callable[..., Path]


@pytest.mark.parametrize("after", [0, 1, 3])
def test_202_a_full_disk_is_said_and_leaves_nothing(
    tiny: State, store: Store, convert: Convert, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    source = store({"pytorch_model.bin": tiny})
    written, write = [0], os.pwrite

    def full(descriptor: int, data: Any, offset: int) -> int:
        written[0] += 1
        if written[0] > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    done = convert(source, options=["--set", "output.max_shard_size=4KB"])
    assert done.code == 5
    assert "the disk takes no more" in done.findings("error")
    assert not done.output.exists()
    assert not (done.output.parent / ".output.hfconvert").exists()


def test_203_one_copy_and_nothing_elsewhere(
    tiny: State, store: Store, convert: Convert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a cache below HOME nor a spool in the temporary folder: the output and nothing else."""
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    source = store({"pytorch_model.bin": tiny})
    before = {path: path.read_bytes() for path in source.rglob("*")}
    done = convert(source)
    assert done.holds(tiny)
    assert not list((tmp_path / "home").rglob("*")) + list((tmp_path / "tmp").rglob("*"))
    assert {path: path.read_bytes() for path in source.rglob("*")} == before
    assert {path.name for path in tmp_path.iterdir()} == {
        *("home", "tmp", "source", "output", "recipe.yaml")
    }
    weights = sum(tensor.numel() * 4 for tensor in tiny.values())
    written = sum(len(content) for name, content in done.files.items() if "safetensors" in name)
    assert weights < written < weights + 4096


def test_209_a_head_that_the_configured_class_lacks_is_kept(
    tiny: State, config: dict[str, Any], store: Store, convert: Convert
) -> None:
    state = {**tiny, "score.weight": torch.randn(5, 16), "score.bias": torch.randn(5)}
    config = {**config, "architectures": ["LlamaModel"]}
    source = store({"pytorch_model.bin": state}, config=config)
    done = convert(source)
    assert done.holds(state)


def test_136_70_what_went_in_and_came_out(
    tiny_tied: State, config_tied: dict[str, Any], store: Store, convert: Convert
) -> None:
    buffers = {"bn.step": torch.tensor(3), "old.bias": torch.ones(10)}
    source = store({"pytorch_model.bin": {**tiny_tied, **buffers}}, config=config_tied)
    done = convert(
        source,
        key_map=[{"drop": ["old.*"]}, {"rename": {"bn.*": "norm.*"}}],
        dtype={"default": "float16", "rules": {"*norm*": "keep"}},
    )
    totals = done.document["totals"]
    parameters = sum(tensor.numel() for tensor in tiny_tied.values()) - 32 * 16
    assert totals["source"] == {
        "tensors": 23,
        "parameters": parameters + 11,
        "bytes": 4 * (parameters + 10) + 8,
        "by_dtype": {
            "F32": {"tensors": 21, "parameters": parameters + 10, "bytes": 4 * (parameters + 10)},
            "I64": {"tensors": 1, "parameters": 1, "bytes": 8},
        },
    }
    norms = 5 * 16
    assert totals["result"]["by_dtype"] == {
        "F16": {"tensors": 15, "parameters": parameters - norms, "bytes": 2 * (parameters - norms)},
        "F32": {"tensors": 5, "parameters": norms, "bytes": 4 * norms},
        "I64": {"tensors": 1, "parameters": 1, "bytes": 8},
    }
    counts = {key: totals[key] for key in ("unchanged", "mapped", "cast", "dropped", "tied")}
    assert counts == {"unchanged": 5, "mapped": 1, "cast": 15, "dropped": 1, "tied": 1}
    assert totals["causes"] == {"left out": -40, "cast": -2 * (parameters - norms)}


def test_70_growth_is_explained(store: Store, convert: Convert) -> None:
    decoder = torch.randn(32, 16)
    views = {"all": decoder, "most": decoder[:24], "rest": decoder[8:]}
    source = store({"pytorch_model.bin": views})
    totals = convert(source).document["totals"]
    assert totals["source"]["bytes"] == 32 * 64
    assert totals["result"]["bytes"] == (32 + 24 + 24) * 64
    assert totals["causes"] == {"views written apart": 48 * 64}
    wider = convert(source, dtype="float64", output="wider").document["totals"]
    assert wider["causes"] == {"views written apart": 48 * 64, "cast": 80 * 64}
