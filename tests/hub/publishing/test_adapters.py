"""A merge goes to another repository; its adapter beside it, or to its own, linked both ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load

from tests.hub.loopback.server import RunningHub

CONFIG = {
    "peft_type": "LORA",
    "r": 4,
    "lora_alpha": 8,
    "target_modules": ["c_attn"],
    "fan_in_fan_out": True,
    "base_model_name_or_path": "owner/m",
}
WHOLE = {"architecture": "off", "logits": "off"}
Tensors = dict[str, torch.Tensor]


@pytest.fixture
def update() -> Tensors:
    torch.manual_seed(2)
    name = "base_model.model.transformer.h.0.attn.c_attn.lora_{}.weight"
    return {name.format("A"): torch.randn(4, 8), name.format("B"): torch.randn(24, 4)}


@pytest.fixture
def adapter(tmp_path: Path, update: Tensors) -> Path:
    """An adapter in a pickle, as older versions of PEFT save it."""
    folder = tmp_path / "my-adapter"
    folder.mkdir()
    torch.save(update, folder / "adapter_model.bin")
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG))
    (folder / "README.md").write_text("---\nbase_model: /home/me/m\n---\n# Trained by me\n")
    return folder


def card_of(repo: Any) -> Any:
    return ModelCard(content(repo, "README.md").decode())


def content(repo: Any, path: str) -> bytes:
    blob = repo.resolve("refs/pr/1").files[path].blob
    return bytes(blob.read(0, blob.size))


def merge(run: Any, folder: Path, /, **publish: Any) -> Any:
    lora = {"adapters": [{"adapter": str(folder)}]}
    return run(lora=lora, validate=WHOLE, publish={"repo": "owner/merged", **publish})


def test_a_merge_goes_to_another_repository(
    hub: RunningHub, repo: Any, run: Any, adapter: Path, state: Tensors, update: Tensors
) -> None:
    done = merge(run, adapter)
    assert done.code == 0, done.findings()
    merged = hub.repos["owner/merged"]
    found = load(content(merged, "model.safetensors"))["transformer.h.0.attn.c_attn.weight"]
    low, high = update.values()
    expected = state["transformer.h.0.attn.c_attn.weight"] + ((high @ low) * 2.0).T
    assert torch.allclose(found, expected, atol=1e-5)
    card = card_of(merged)
    assert (card.data.base_model, card.data.base_model_relation) == ("owner/m", "finetune")
    assert "sum(weight * scale * (B @ A))" in card.text
    assert "`my-adapter`" in card.text
    assert "adapter merged" in merged.discussions[0].title
    assert not any("adapter_config" in path for path in merged.resolve("refs/pr/1").files)
    assert str(adapter.parent) not in card.text
    assert repo.discussions == []
    assert merge(run, adapter).status == "up-to-date"


@pytest.mark.parametrize(
    "options", [{}, {"output": {"disk": "bounded"}}], ids=("normal", "bounded")
)
def test_the_adapter_beside_it(
    hub: RunningHub, repo: Any, run: Any, adapter: Path, update: Tensors, home: Path, options: Any
) -> None:
    lora = {"adapters": [{"adapter": str(adapter)}]}
    publish = {"repo": "owner/merged", "adapter": "beside"}
    done = run(lora=lora, validate=WHOLE, publish=publish, **options)
    assert done.code == 0, done.findings()
    merged = hub.repos["owner/merged"]
    found = load(content(merged, "adapter/adapter_model.safetensors"))
    assert found.keys() == update.keys()
    assert all(torch.equal(found[name], update[name]) for name in update)
    assert json.loads(content(merged, "adapter/adapter_config.json")) == CONFIG
    assert not any(path.endswith(".bin") for path in merged.resolve("refs/pr/1").files)
    assert [path for path in home.rglob("*") if path.suffix != ".lock"] == []


def test_the_adapter_in_its_own_repository_linked_both_ways(
    hub: RunningHub, repo: Any, run: Any, adapter: Path, update: Tensors
) -> None:
    done = merge(run, adapter, adapter="owner/lora")
    assert done.code == 0, done.findings()
    own, merged = hub.repos["owner/lora"], hub.repos["owner/merged"]
    assert own.private
    assert set(own.resolve("refs/pr/1").files) == {
        *("README.md", "adapter_config.json", "adapter_model.safetensors")
    }
    of_adapter = card_of(own)
    of_merged = card_of(merged)
    assert of_adapter.data.base_model == "owner/m"
    assert of_adapter.data.base_model_relation == "adapter"
    assert f"[owner/merged]({hub.endpoint}/owner/merged)" in of_adapter.text
    assert "# Trained by me" in of_adapter.text
    assert of_merged.data.base_model == ["owner/m", "owner/lora"]
    assert of_merged.data.base_model_relation == "merge"
    assert f"[owner/lora]({hub.endpoint}/owner/lora)" in of_merged.text
    assert own.discussions[0].title == "Adding an adapter of owner/m"
    assert merge(run, adapter, adapter="owner/lora").status == "up-to-date"
    assert (len(own.discussions), len(merged.discussions)) == (1, 1)


def test_a_repository_for_the_adapter_that_cannot_be_made(
    hub: RunningHub, repo: Any, run: Any, adapter: Path
) -> None:
    """Known before the first byte, so the merge is not published either."""
    done = merge(run, adapter, adapter="lab/lora")
    assert done.code == 4
    assert "owner is no member of lab" in done.findings()
    assert "owner/merged" not in hub.repos
