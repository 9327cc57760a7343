from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from hfconvert.checks.ties import Restored, tie_faults
from hfconvert.checks.written import open_written
from hfconvert.errors import UserError
from hfconvert.tensors.header import read_header
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.source import LocalFile

State = dict[str, torch.Tensor]
EMBED, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def lazy(path: Path, name: str) -> LazyTensor:
    source = LocalFile.of(path)
    (entry,) = (one for one in read_header(source).entries if one.name == name)
    return Leaf.packed(entry.spec, source, entry.start)


def faults(
    tmp_path: Path, source: State, written: State, *, config: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    for name, state in (("source", source), ("written", written)):
        save_file(state, tmp_path / f"{name}.safetensors")
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    tie = Restored(EMBED, HEAD, lazy(tmp_path / "source.safetensors", HEAD))
    files = {"written": open_written(tmp_path / "written.safetensors", "written")}
    return tie_faults([tie], files, tmp_path / "config.json" if config is not None else None)


@pytest.fixture
def weight() -> torch.Tensor:
    return torch.randn(300, 700, generator=torch.Generator().manual_seed(2))


def test_the_kept_name_holds_the_values_of_the_dropped_one(
    tmp_path: Path, weight: torch.Tensor
) -> None:
    assert faults(tmp_path, {HEAD: weight}, {EMBED: weight}) == ()
    assert faults(tmp_path, {HEAD: weight}, {EMBED: weight.bfloat16()}) == ()


def test_one_value_that_differs(tmp_path: Path, weight: torch.Tensor) -> None:
    other = weight.clone()
    other[299, 699] += 1
    (fault,) = faults(tmp_path, {HEAD: weight}, {EMBED: other})
    assert fault == f"{EMBED} does not hold the values of {HEAD}: first at (299, 699)"
    (fault,) = faults(tmp_path, {HEAD: weight}, {EMBED: other.bfloat16()})
    assert "first at (299, 699)" in fault


def test_another_shape(tmp_path: Path, weight: torch.Tensor) -> None:
    (fault,) = faults(tmp_path, {HEAD: weight}, {EMBED: weight[:298].clone()})
    assert "F32 [300, 700] in the source" in fault
    assert "F32 [298, 700]" in fault


def test_a_kept_name_that_is_not_stored(tmp_path: Path, weight: torch.Tensor) -> None:
    (fault,) = faults(tmp_path, {HEAD: weight}, {"other": weight})
    assert fault == f"{HEAD} was left out for {EMBED}, which is not stored"


def test_a_dropped_name_that_is_stored(tmp_path: Path, weight: torch.Tensor) -> None:
    (fault,) = faults(tmp_path, {HEAD: weight}, {EMBED: weight, HEAD: weight.clone()})
    assert "is stored though it was to be left out" in fault


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        ({}, False),
        ({"tie_word_embeddings": True}, False),
        ({"tie_word_embeddings": False}, True),
        ({"text_config": {"tie_word_embeddings": False}}, True),
        ({"tie_word_embeddings": False, "text_config": {"tie_word_embeddings": True}}, False),
    ],
)
def test_a_configuration_that_contradicts(
    tmp_path: Path, weight: torch.Tensor, config: dict[str, Any], wrong: bool
) -> None:
    found = faults(tmp_path, {HEAD: weight}, {EMBED: weight}, config=config)
    assert any("config.json says that they are untied" in fault for fault in found) == wrong
    assert len(found) == wrong


def test_without_values_only_names_are_held(tmp_path: Path, weight: torch.Tensor) -> None:
    save_file({EMBED: weight * 2}, tmp_path / "written.safetensors")
    files = {"written": open_written(tmp_path / "written.safetensors", "written")}
    assert tie_faults([Restored(EMBED, HEAD, None)], files, None) == ()


def test_a_file_that_became_shorter_restores_nothing(tmp_path: Path) -> None:
    state = {EMBED: torch.arange(200_000, dtype=torch.float32)}
    save_file({HEAD: state[EMBED]}, tmp_path / "source.safetensors")
    path = tmp_path / "written.safetensors"
    save_file(state, path)
    files = {"written": open_written(path, "written")}
    tie = Restored(EMBED, HEAD, lazy(tmp_path / "source.safetensors", HEAD))
    os.truncate(path, path.stat().st_size - 4)
    with pytest.raises(UserError, match="it ends at byte"):
        tie_faults([tie], files, None)
