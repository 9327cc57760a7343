"""A quantised base on the Hub: refused, with the model that its card or its name says it was made from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from hfconvert.errors import Exit, UserError
from hfconvert.preview import plan
from hfconvert.recipe import parse
from tests.hub.loopback.server import RunningHub

CARD = b"---\nbase_model: maker/plain\nbase_model_relation: quantized\n---\n# Quantised\n"


@pytest.mark.parametrize(
    ("repo", "card", "parent"),
    [
        ("owner/model-4x", {"README.md": CARD}, "maker/plain"),
        ("owner/model-bnb-4bit", {}, "owner/model"),
        ("owner/model-bnb-4bit", {"README.md": CARD}, "maker/plain"),
        ("owner/model-4x", {}, "the model before it was quantised"),
    ],
)
def test_the_parent_is_named(
    repo: str,
    card: dict[str, bytes],
    parent: str,
    hub: RunningHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = {"l.weight": torch.zeros(4, 4, dtype=torch.int8), "l.SCB": torch.ones(4)}
    hub.repo(repo, {"model.safetensors": save(weights), "config.json": b"{}", **card})
    monkeypatch.setenv("HF_TOKEN", hub.token())
    factors = {"lora_A": torch.ones(2, 4), "lora_B": torch.ones(4, 2)}
    state = {f"base_model.model.l.{name}.weight": one for name, one in factors.items()}
    (tmp_path / "adapter_model.safetensors").write_bytes(save(state))
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 2, "target_modules": ["l"]}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    document = {
        "version": 1,
        "source": {"repo": repo},
        "lora": {"adapters": [{"adapter": str(tmp_path)}]},
    }
    with pytest.raises(UserError) as caught:
        plan(parse(json.dumps(document), "recipe.yaml"))
    assert caught.value.exit == Exit.RECIPE
    assert f"take {parent} as the source" in str(caught.value)
