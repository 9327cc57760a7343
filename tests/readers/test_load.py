from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from hfconvert.errors import Exit, UserError
from hfconvert.readers.load import Found, Wanted, load
from hfconvert.tensors.box import full

State = dict[str, torch.Tensor]

A = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.ones(3)}
B = {"b.weight": torch.arange(4, dtype=torch.int64)}


def _write(root: Path, files: Mapping[str, Any]) -> Path:
    for name, content in files.items():
        if name.endswith(".safetensors"):
            save_file(content, root / name, metadata={"format": "pt"})
        elif name.endswith(".json"):
            (root / name).write_text(json.dumps(content))
        elif isinstance(content, bytes):
            (root / name).write_bytes(content)
        else:
            torch.save(content, root / name)
    return root


def _sharded(*states: State, ending: str = "bin", stem: str = "pytorch_model") -> dict[str, Any]:
    """Shards with their index."""
    count = len(states)
    names = [f"{stem}-{i:05}-of-{count:05}.{ending}" for i in range(1, count + 1)]
    weight_map = {key: name for name, state in zip(names, states, strict=True) for key in state}
    index = {f"{stem}.{ending}.index.json": {"weight_map": weight_map}}
    return {**dict(zip(names, states, strict=True)), **index}


def _values(found: Found) -> dict[str, bytes]:
    values = {}
    for name, entry in found.checkpoint.items():
        out = np.empty(entry.tensor.extent, entry.tensor.spec.dtype.raw)
        entry.tensor.fill(out, full(entry.tensor.extent))
        values[name] = out.tobytes()
    return values


def _raw(state: State) -> dict[str, bytes]:
    return {
        name: bytes(tensor.contiguous().view(torch.uint8).flatten().tolist())
        for name, tensor in state.items()
    }


def _refusal(path: Path, wanted: Wanted, code: Exit) -> str:
    with pytest.raises(UserError) as caught:
        load(path, wanted)
    assert caught.value.exit == code
    return str(caught.value)


ANY = Wanted()


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "odd.pt", "odd.ckpt"])
def test_one_file_in_a_folder_or_by_its_name(tmp_path: Path, name: str) -> None:
    root = _write(tmp_path, {name: A})
    for path in (root, root / name):
        found = load(path, ANY)
        assert found.root == root
        assert _values(found) == _raw(A)
        assert found.layout.files == (name,)
        assert set(found.file_of.values()) == {name}
        assert found.format == ("safetensors" if name.endswith("safetensors") else "torch")


def test_safetensors_under_another_name_is_found_by_content(tmp_path: Path) -> None:
    save_file(A, tmp_path / "x.safetensors")
    (tmp_path / "x.safetensors").rename(tmp_path / "pytorch_model.bin")
    found = load(tmp_path, ANY)
    assert found.format == "safetensors"
    assert _values(found) == _raw(A)


def test_shards_are_one_checkpoint(tmp_path: Path) -> None:
    root = _write(tmp_path, _sharded(A, B))
    found = load(root, ANY)
    assert list(found.checkpoint) == [*A, *B]
    assert _values(found) == _raw({**A, **B})
    assert found.file_of["b.weight"] == "pytorch_model-00002-of-00002.bin"
    assert [file.source.name for file in found.files] == list(found.layout.files)
    assert found.findings == ()


def test_metadata_of_all_files_is_joined_and_contradictions_are_said(tmp_path: Path) -> None:
    save_file(A, tmp_path / "model-00001-of-00002.safetensors", metadata={"format": "pt", "n": "1"})
    save_file(B, tmp_path / "model-00002-of-00002.safetensors", metadata={"n": "2", "m": "3"})
    found = load(tmp_path, ANY)
    assert found.metadata == {"format": "pt", "n": "1", "m": "3"}
    (finding,) = found.findings
    assert finding.level == "warning"
    assert "'n' differs" in finding.message


def test_every_missing_shard_is_named(tmp_path: Path) -> None:
    root = _write(tmp_path, _sharded(A, B, {"c": torch.ones(1)}))
    (root / "pytorch_model-00001-of-00003.bin").unlink()
    (root / "pytorch_model-00003-of-00003.bin").unlink()
    said = _refusal(root, ANY, Exit.SOURCE)
    assert "pytorch_model-00001-of-00003.bin: this file is missing" in said
    assert "pytorch_model-00003-of-00003.bin: this file is missing" in said
    assert "pytorch_model-00002" not in said


def test_every_broken_shard_is_named(tmp_path: Path) -> None:
    root = _write(tmp_path, _sharded(A, B))
    for path in root.glob("*.bin"):
        path.write_bytes(path.read_bytes()[:100])
    said = _refusal(root, ANY, Exit.SOURCE)
    assert "pytorch_model-00001-of-00002.bin" in said
    assert "pytorch_model-00002-of-00002.bin" in said


def test_a_stale_index_is_refused(tmp_path: Path) -> None:
    files = _sharded(A, B)
    files["pytorch_model.bin.index.json"]["weight_map"]["ghost"] = (
        "pytorch_model-00001-of-00002.bin"
    )
    assert "ghost: the index maps it to" in _refusal(_write(tmp_path, files), ANY, Exit.SOURCE)


def test_one_name_in_two_shards_with_equal_bytes_is_kept_where_the_index_says(
    tmp_path: Path,
) -> None:
    files = _sharded(A, {**B, "a.bias": torch.ones(3)})
    second = "pytorch_model-00002-of-00002.bin"
    assert files["pytorch_model.bin.index.json"]["weight_map"]["a.bias"] == second
    found = load(_write(tmp_path, files), ANY)
    assert found.file_of["a.bias"] == second
    (finding,) = found.findings
    assert (finding.level, finding.subject) == ("warning", "a.bias")
    assert "with equal values; the one of pytorch_model-00002" in finding.message


def test_one_name_in_two_shards_with_different_bytes(tmp_path: Path) -> None:
    changed = torch.full((3,), 5.0)
    root = _write(tmp_path, _sharded(A, {**B, "a.bias": changed}))
    said = _refusal(root, ANY, Exit.SOURCE)
    assert "a.bias: stored in both pytorch_model-00001-of-00002.bin and" in said
    assert "keep-indexed" in said
    found = load(root, Wanted(keep_indexed=True))
    assert _values(found)["a.bias"] == _raw({"x": changed})["x"]
    assert "different values" in found.findings[0].message


def test_safetensors_and_pickles_of_the_same_values(tmp_path: Path) -> None:
    found = load(_write(tmp_path, {"model.safetensors": A, "pytorch_model.bin": A}), ANY)
    (finding,) = found.findings
    assert (finding.level, finding.subject) == ("info", "model.safetensors")
    assert "pytorch_model.bin holds the same values for 2 names" in finding.message


def test_safetensors_and_pickles_of_different_values(tmp_path: Path) -> None:
    other = {**A, "a.bias": torch.zeros(3)}
    root = _write(tmp_path, {"model.safetensors": A, "pytorch_model.bin": other})
    said = _refusal(root, ANY, Exit.SOURCE)
    assert "model.safetensors and pytorch_model.bin hold different weights: a.bias" in said
    chosen = load(root, Wanted(files=("pytorch_model.bin",)))
    assert _values(chosen) == _raw(other)
    chosen = load(root, Wanted(files=("model.safetensors",)))
    assert _values(chosen) == _raw(A)


def test_pickles_that_were_not_fetched_are_not_compared(tmp_path: Path) -> None:
    files = {"model.safetensors": {**A, **B}, **_sharded(A, B)}
    root = _write(tmp_path, files)
    for path in root.glob("*.bin"):
        path.unlink()
    found = load(root, ANY)
    assert _values(found) == _raw({**A, **B})
    (finding,) = found.findings
    assert (finding.level, finding.subject) == ("info", "pytorch_model.bin.index.json")
    assert "not compared" in finding.message


def test_several_sets_are_for_the_recipe_to_choose_from(tmp_path: Path) -> None:
    other = {name: tensor + 1 for name, tensor in A.items()}
    root = _write(tmp_path, {"model.pt": {"model": A, "ema": other}})
    said = _refusal(root, ANY, Exit.RECIPE)
    assert "source.weights" in said
    assert "model (2 tensors, 36 bytes)" in said
    assert "ema (2 tensors, 36 bytes)" in said
    assert _values(load(root, Wanted(weights="ema"))) == _raw(other)
    wanted = Wanted(weights="emma", where_weights="recipe.yaml:4:12")
    assert "recipe.yaml:4:12" in _refusal(root, wanted, Exit.RECIPE)


def test_a_dangerous_pickle_is_refused_unless_the_recipe_says_otherwise(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {tmp_path}/exploded",)

    root = tmp_path / "source"
    root.mkdir()
    _write(root, {"model.pt": {"state_dict": A, "extra": Bomb()}})
    said = _refusal(root, ANY, Exit.SOURCE)
    assert "system" in said
    assert "refuse_dangerous" in said
    assert _values(load(root, Wanted(refuse_dangerous=False))) == _raw(A)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("path", ["nothing", "x" * 300, "a/" * 3000])
def test_a_path_that_leads_nowhere(tmp_path: Path, path: str) -> None:
    assert "source.path" in _refusal(tmp_path / path, ANY, Exit.SOURCE)


def test_safetensors_without_tensors(tmp_path: Path) -> None:
    root = _write(tmp_path, {"model.safetensors": {}})
    assert "there is no tensor in it" in _refusal(root, ANY, Exit.SOURCE)
    files = {f"model-{i:05}-of-00002.safetensors": state for i, state in enumerate([{}, A], 1)}
    assert _values(load(_write(tmp_path, files), Wanted(files=("model-*",)))) == _raw(A)


def test_a_file_that_is_empty(tmp_path: Path) -> None:
    for name in ("model.safetensors", "pytorch_model.bin"):
        (tmp_path / name).write_bytes(b"")
        assert name in _refusal(tmp_path / name, ANY, Exit.SOURCE)


def test_no_data_is_read_when_a_checkpoint_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _write(tmp_path, {"model.safetensors": {"w": torch.ones(1 << 20)}})
    read = 0
    preadv = os.preadv

    def counting(descriptor: int, buffers: Any, offset: int) -> int:
        nonlocal read
        count = preadv(descriptor, buffers, offset)
        read += count
        return count

    monkeypatch.setattr(os, "preadv", counting)
    found = load(root, ANY)
    assert found.checkpoint["w"].tensor.spec.nbytes == 4 << 20
    assert read < 1000
