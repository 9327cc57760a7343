"""`hfconvert verify`: side files, indexes and damaged files of a candidate; what cannot be compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from tests.verifying.verified import CONFIG, Verify


@pytest.mark.parametrize(
    ("file", "content", "fault"),
    [
        ("tokenizer.json", '{"version": "2.0"}', 'differs: version: "1.0" -> "2.0"'),
        ("modeling_x.py", "x = 2\n", "is not what the source has"),
        ("config.json", json.dumps({**CONFIG, "hidden_size": 9}), "differs: hidden_size: 8 -> 9"),
        ("configuration_x.py", "import os\n", "added: the source does not have it"),
        ("tokenizer_config.json", "{}", "added: the source does not have it"),
        ("tokenizer.json", None, "missing: the source has it"),
        ("config.json", None, "missing: the source has it"),
    ],
)
def test_another_file_is_named(
    verify: Verify, source: Path, candidate: Path, file: str, content: str | None, fault: str
) -> None:
    if content is None:
        (candidate / file).unlink()
    else:
        (candidate / file).write_text(content)
    done = verify(source, candidate)
    assert done.code == 1
    assert done.failed() == {"files"}
    assert f"{file}: {fault}" in done.errors()


def test_what_says_nothing_of_the_model_is_no_fault(
    verify: Verify, source: Path, candidate: Path
) -> None:
    config = {**CONFIG, "transformers_version": "5.0"}
    config["torch_dtype"] = config.pop("dtype")
    (candidate / "config.json").write_text(json.dumps(config, indent=4))
    (candidate / "README.md").write_text("# Another card\n")
    done = verify(source, candidate)
    assert done.code == 0
    assert 'config.json: only says who wrote it: transformers_version: absent -> "5.0"' in (
        done.notes()
    )


def test_pickles_beside_a_candidate_are_not_read(
    verify: Verify, source: Path, candidate: Path
) -> None:
    (candidate / "pytorch_model.bin").write_bytes(b"no pickle at all")
    assert verify(source, candidate).code == 0


def test_a_damaged_candidate_is_a_failed_check(
    verify: Verify, source: Path, candidate: Path
) -> None:
    path = candidate / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    done = verify(source, candidate)
    assert done.code == 1
    assert done.failed() == {"names"}
    assert "model.safetensors" in done.errors()


def sharded(root: Path) -> dict[str, Any]:
    """Cut a candidate into two shards; its index."""
    tensors = load_file(root / "model.safetensors")
    (root / "model.safetensors").unlink()
    weight_map: dict[str, str] = {}
    for number in range(2):
        names = sorted(tensors)[number::2]
        file = f"model-{number + 1:05}-of-00002.safetensors"
        save_file({name: tensors[name] for name in names}, root / file)
        weight_map |= dict.fromkeys(names, file)
    return {"metadata": {"total_size": 0}, "weight_map": weight_map}


def test_a_stale_index_is_a_failed_check(verify: Verify, source: Path, candidate: Path) -> None:
    index = sharded(candidate)
    path = candidate / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    assert verify(source, candidate).code == 0
    names = sorted(index["weight_map"])
    index["weight_map"][names[0]] = index["weight_map"][names[1]]
    path.write_text(json.dumps(index))
    done = verify(source, candidate)
    assert done.code == 1
    assert done.failed() == {"names"}
    assert f"{names[0]}: " in done.errors()


def test_a_missing_shard_is_a_failed_check(verify: Verify, source: Path, candidate: Path) -> None:
    index = sharded(candidate)
    (candidate / "model.safetensors.index.json").write_text(json.dumps(index))
    (candidate / "model-00002-of-00002.safetensors").unlink()
    done = verify(source, candidate)
    assert done.code == 1
    assert "model-00002-of-00002.safetensors: this file is missing" in done.errors()


def test_weights_that_a_loader_reads_instead_are_a_fault(
    verify: Verify, source: Path, candidate: Path
) -> None:
    content = (candidate / "model.safetensors").read_bytes()
    index = sharded(candidate)
    (candidate / "model.safetensors.index.json").write_text(json.dumps(index))
    (candidate / "model.safetensors").write_bytes(content)
    done = verify(source, candidate)
    assert done.failed() == {"names"}
    assert "loaders read it, and it was not compared" in done.errors()


def test_single_files_are_compared_without_side_files(
    verify: Verify, source: Path, candidate: Path
) -> None:
    done = verify(source / "pytorch_model.bin", candidate / "model.safetensors")
    assert done.code == 0
    assert done.status("files") == "skipped"


def test_a_broken_source_is_exit_3(verify: Verify, source: Path, candidate: Path) -> None:
    (source / "pytorch_model.bin").write_bytes(b"<html>")
    done = verify(source, candidate)
    assert done.code == 3
    assert done.report["status"] == "failed"


def test_nothing_there_is_exit_3(verify: Verify, source: Path, tmp_path: Path) -> None:
    assert verify(source, tmp_path / "nothing").code == 3
    assert verify(tmp_path / "nothing", source).code == 3


def test_a_repository_that_cannot_be_reached_is_exit_4(verify: Verify, source: Path) -> None:
    """The tests have no network; what the Hub answers is held by those of `hub`."""
    assert verify(source, "org/model@refs/pr/3").code == 4
