"""Section C: metadata and the format of the files."""

from __future__ import annotations

import hashlib
import json
import os
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


@pytest.mark.parametrize("metadata", [None, {}, {"format": "mlx"}], ids=["none", "empty", "mlx"])
def test_16_the_format_tag_is_always_written(
    tiny: State, store: Store, convert: Convert, metadata: dict[str, str] | None
) -> None:
    done = convert(store({"model.safetensors": (tiny, metadata)}))
    assert done.code == 0
    assert done.header()["__metadata__"] == {"format": "pt"}
    assert done.holds(tiny)


def test_16_a_pickle_gets_it_too(tiny: State, store: Store, convert: Convert) -> None:
    done = convert(store({"pytorch_model.bin": tiny}))
    assert done.header()["__metadata__"] == {"format": "pt"}


def test_17_metadata_is_carried_over(tiny: State, store: Store, convert: Convert) -> None:
    done = convert(store({"model.safetensors": (tiny, {"format": "pt", "note": "x"})}))
    assert done.header()["__metadata__"] == {"format": "pt", "note": "x"}


def test_17_of_all_shards(tiny: State, store: Store, convert: Convert) -> None:
    names = list(tiny)
    halves = [{name: tiny[name] for name in part} for part in (names[:9], names[9:])]
    files = {
        "model-00001-of-00002.safetensors": (halves[0], {"format": "pt", "note": "x"}),
        "model-00002-of-00002.safetensors": (halves[1], {"format": "pt", "other": "y"}),
    }
    done = convert(store(files))
    assert done.header()["__metadata__"] == {"format": "pt", "note": "x", "other": "y"}


def test_19_metadata_is_optional_on_input(tiny: State, store: Store, convert: Convert) -> None:
    source = store({"model.safetensors": (tiny, None)})
    for command in ("plan", "run"):
        assert convert(source, command=command, output=command).code == 0
    done = convert(source, output="again")
    assert done.holds(tiny)


def test_20_the_same_input_gives_the_same_bytes(tiny: State, store: Store, tmp_path: Path) -> None:
    metadata = {"format": "pt", "alpha": "1", "beta": "2", "gamma": "3"}
    source = store({"model.safetensors": (tiny, metadata)})
    hashes = set()
    for seed in range(3):
        output = tmp_path / f"output-{seed}"
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text(json.dumps({"version": 1, "source": {"path": str(source)}}))
        command = [sys.executable, "-m", "hfconvert", "run", str(recipe), "--output", str(output)]
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        root = Path(__file__).parents[2]
        subprocess.run(command, check=True, capture_output=True, env=environment, cwd=root)
        hashes.add(hashlib.sha256((output / "model.safetensors").read_bytes()).hexdigest())
    assert len(hashes) == 1


def test_20_the_order_of_tensors_and_metadata_in_the_source_does_not_matter(
    tiny: State, store: Store, convert: Convert
) -> None:
    one = store({"model.safetensors": (tiny, {"a": "1", "b": "2"})}, folder="one")
    turned = dict(reversed(list(tiny.items())))
    two = store({"model.safetensors": (turned, {"b": "2", "a": "1"})}, folder="two")
    done = [convert(source, output=f"out-{source.name}") for source in (one, two)]
    assert done[0].files["model.safetensors"] == done[1].files["model.safetensors"]


def test_22_shards_are_cut_by_the_size_of_their_headers_too(
    store: Store, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No data and 2 MB of names, cut at a fiftieth of the real limit, which is itself below 100 MB."""
    from hfconvert.planning.shards import HEADER_BYTES
    from hfconvert.tensors.header import MAX_HEADER

    assert HEADER_BYTES < MAX_HEADER
    limit = HEADER_BYTES // 50
    monkeypatch.setattr("hfconvert.planning.shards.HEADER_BYTES", limit)
    names = [f"{number:05}.{'n' * 3990}" for number in range(500)]
    done = convert(store({"model.safetensors": {name: torch.empty(0) for name in names}}))
    assert done.code == 0
    files = sorted(name for name in done.files if name.endswith(".safetensors"))
    assert len(files) == 3
    assert all(int.from_bytes(done.files[name][:8], "little") <= limit for name in files)
    headers = {name: done.header(name).keys() - {"__metadata__"} for name in files}
    assert sorted(name for header in headers.values() for name in header) == names
    weight_map = done.json("model.safetensors.index.json")["weight_map"]
    assert all(name in headers[file] for name, file in weight_map.items())
