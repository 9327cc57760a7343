"""Configurations that were lost: rebuilt from what files record, or asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hfconvert.errors import UserError
from hfconvert.planning.plan import Plan

Merge = Callable[..., dict[str, torch.Tensor]]


@pytest.fixture
def lost(zoo: Path, tmp_path: Path) -> Callable[..., Path]:
    """An adapter without its configuration; metadata may be in its header."""

    def make(case: str, **metadata: str) -> Path:
        folder = tmp_path / "lost"
        folder.mkdir(exist_ok=True)
        state = load_file(zoo / case / "adapter/adapter_model.safetensors")
        save_file(state, folder / "adapter_model.safetensors", metadata=metadata)
        return folder

    return make


def test_without_alpha_it_is_asked_for(
    lost: Callable[..., Path], zoo: Path, planned: Callable[..., Plan]
) -> None:
    with pytest.raises(UserError) as error:
        planned(zoo / "base/llama", lost("lora_plain"))
    assert error.value.exit == 2
    assert "lora.lora_alpha" in str(error.value)
    assert "rank 4" in str(error.value)


@pytest.mark.parametrize("case", ["lora_plain", "lora_dora", "loha"])
def test_with_the_recipes_alpha_it_is_as_if_it_were_there(
    case: str, lost: Callable[..., Path], zoo: Path, merge: Merge
) -> None:
    base = zoo / "base/llama"
    rebuilt = merge(base, lost(case), lora_alpha=8.0)
    kept = merge(base, zoo / case / "adapter")
    assert [name for name in kept if not torch.equal(kept[name], rebuilt[name])] == []


def test_metadata_gives_alpha(lost: Callable[..., Path], zoo: Path, merge: Merge) -> None:
    base = zoo / "base/llama"
    rebuilt = merge(base, lost("lora_plain", ss_network_alpha="8"))
    kept = merge(base, zoo / "lora_plain/adapter")
    assert all(torch.equal(kept[name], rebuilt[name]) for name in kept)


def test_a_recorded_configuration_is_taken_whole(
    lost: Callable[..., Path], zoo: Path, merge: Merge
) -> None:
    config = json.loads((zoo / "lora_rslora/adapter/adapter_config.json").read_text())
    folder = lost("lora_rslora", lora_adapter_metadata=json.dumps(config))
    kept = merge(zoo / "base/llama", zoo / "lora_rslora/adapter")
    rebuilt = merge(zoo / "base/llama", folder)
    assert all(torch.equal(kept[name], rebuilt[name]) for name in kept)


def test_what_was_rebuilt_is_said(
    lost: Callable[..., Path], zoo: Path, planned: Callable[..., Plan]
) -> None:
    plan = planned(zoo / "base/llama", lost("lora_plain"), lora_alpha=8.0)
    said = " ".join(one.message for one in plan.findings)
    assert "rank from the tensors, alpha 8 from lora.lora_alpha of the recipe" in said


def test_a_model_is_no_adapter(zoo: Path, planned: Callable[..., Plan]) -> None:
    with pytest.raises(UserError) as error:
        planned(zoo / "base/llama", zoo / "base/llama_bias")
    assert error.value.exit == 3
    assert "it is a model and not an adapter" in str(error.value)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"{", "this configuration cannot be read"),
        (b"[]", "it is no JSON object"),
        (b"{}", "does not say its `peft_type`"),
        (b'{"peft_type": "NEW_METHOD"}', "a method that hfconvert does not know"),
        (b'{"peft_type": "PROMPT_TUNING"}', "PROMPT_TUNING cannot be merged"),
        (b'{"peft_type": "XLORA"}', "XLORA cannot be merged"),
        (b'{"peft_type": "LORA", "layer_replication": [[0, 1]]}', "`layer_replication` cannot be"),
        (b'{"peft_type": "LORA", "alora_invocation_tokens": [1]}', "`alora_invocation_tokens`"),
    ],
)
def test_configurations_that_cannot_be_used(
    content: bytes,
    what: str,
    lost: Callable[..., Path],
    zoo: Path,
    planned: Callable[..., Any],
) -> None:
    folder = lost("lora_plain")
    (folder / "adapter_config.json").write_bytes(content)
    with pytest.raises(UserError) as error:
        planned(zoo / "base/llama", folder)
    assert error.value.exit == 3
    assert what in str(error.value)
