"""A local clone of the target is the target's own conversion, with its title and its parent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hub.loopback.server import RunningHub

TO = {"repo": "owner/m"}


@pytest.fixture
def clone(tmp_path: Path, files: dict[str, bytes]) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def test_a_clone_is_the_repository(hub: RunningHub, repo: Any, run: Any, clone: Path) -> None:
    done = run(source={"path": str(clone)}, publish=TO)
    assert done.code == 0, done.findings()
    [opened] = repo.discussions
    assert opened.title == "Adding `safetensors` variant of this model"
    commits = list(repo.history(repo.resolve("refs/pr/1")))
    assert commits[1].id == repo.head.id
    added = commits[0].files.keys() - repo.head.files.keys()
    assert added == {"model.safetensors"}
    assert commits[0].files["README.md"] == repo.head.files["README.md"]
    assert run(source={"path": str(clone)}, publish=TO).status == "up-to-date"
    assert run().status == "up-to-date"  # the same from the repository itself


@pytest.mark.parametrize(
    ("name", "data"),
    [("config.json", b"{}"), ("README.md", b"# Mine"), ("notes.txt", b"not there")],
)
def test_with_a_file_that_differs_it_is_another_model(
    hub: RunningHub, repo: Any, run: Any, clone: Path, name: str, data: bytes
) -> None:
    (clone / name).write_bytes(data)
    done = run(source={"path": str(clone)}, publish=TO, validate={"architecture": "off"})
    assert done.code == 0, done.findings()
    assert repo.discussions[0].title == "Adding `safetensors` weights"
    text = repo.resolve("refs/pr/1").files["README.md"].blob.read(0, 1 << 20).decode()
    assert "Its owner's words." in text


def test_other_values_over_it_have_to_be_asked_for(
    hub: RunningHub, repo: Any, run: Any, clone: Path
) -> None:
    done = run(source={"path": str(clone)}, publish=TO, dtype="bfloat16")
    assert done.code == 2
    assert "replace_weights: true" in done.findings()


def test_a_merge_is_not_published_to_its_base(
    hub: RunningHub, repo: Any, run: Any, clone: Path, tmp_path: Path
) -> None:
    import torch

    folder = tmp_path / "adapter"
    folder.mkdir()
    name = "base_model.model.transformer.h.0.attn.c_attn.lora_{}.weight"
    torch.save(
        {name.format("A"): torch.ones(4, 8), name.format("B"): torch.ones(24, 4)},
        folder / "adapter_model.bin",
    )
    settings = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["c_attn"]}
    (folder / "adapter_config.json").write_text(json.dumps({**settings, "fan_in_fan_out": True}))
    lora = {"adapters": [{"adapter": str(folder)}]}
    done = run(source={"path": str(clone)}, publish=TO, lora=lora)
    assert done.code == 2
    assert "a merge is not published to its source" in done.findings()
    assert repo.discussions == []
