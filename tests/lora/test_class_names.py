"""Adapters whose modules have the names of the class in memory, over files that keep their older names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hfconvert.errors import UserError
from hfconvert.lora.base import Base
from hfconvert.lora.class_names import ClassNames
from hfconvert.tensors.checkpoint import Checkpoint

State = dict[str, torch.Tensor]
Merge = Callable[..., State]

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def vit(tmp_path: Path) -> Any:
    """A tiny ViT in `base`; transformers calls its projections `q_proj`, its files call them `query`."""
    from transformers import ViTConfig, ViTForImageClassification

    return saved(
        ViTForImageClassification(
            ViTConfig(
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=2,
                num_attention_heads=2,
                image_size=32,
            )
        ),
        tmp_path,
    )


def saved(model: Any, folder: Path) -> Any:
    torch.manual_seed(0)
    model.save_pretrained(folder / "base")
    return model


def adapted(model: Any, targets: Any, folder: Path) -> State:
    """Save a random LoRA; what PEFT makes of the model with it, under the names of its files."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=4, target_modules=targets, init_lora_weights=False)
    with_adapter: Any = get_peft_model(model, config)
    with_adapter.save_pretrained(folder / "adapter")
    with_adapter.merge_and_unload().save_pretrained(folder / "merged")
    return load_file(folder / "merged" / "model.safetensors")


def test_modules_are_found_by_the_names_of_the_class(
    vit: Any, merge: Merge, planned: Callable[..., Any], tmp_path: Path
) -> None:
    theirs = adapted(vit, ["q_proj", "fc1"], tmp_path)
    ours = merge(tmp_path / "base", tmp_path / "adapter")
    assert "vit.encoder.layer.1.attention.attention.query.weight" in ours
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    said = [one.message for one in planned(tmp_path / "base", tmp_path / "adapter").findings]
    assert any("4 modules have other names in the files of the base" in one for one in said)


def test_a_lost_module_is_an_error_by_its_name_in_the_files(
    vit: Any, merge: Merge, tmp_path: Path
) -> None:
    adapted(vit, ["q_proj", "fc1"], tmp_path)
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    kept = {name: one for name, one in load_file(file).items() if "layers.1.mlp.fc1" not in name}
    save_file(kept, file, {"format": "pt"})
    with pytest.raises(UserError) as error:
        merge(tmp_path / "base", tmp_path / "adapter")
    assert "1 modules are targets of the configuration and have no tensors" in str(error.value)


def test_pieces_of_a_stack_are_no_targets(merge: Merge, tmp_path: Path) -> None:
    from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

    config = Qwen2MoeConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        num_experts=4,
        num_experts_per_tok=2,
    )
    model = saved(Qwen2MoeForCausalLM(config), tmp_path)
    theirs = adapted(model, ["gate_proj"], tmp_path)
    assert "model.layers.0.mlp.experts.3.gate_proj.weight" in theirs
    ours = merge(tmp_path / "base", tmp_path / "adapter")
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


def test_where_no_class_is_named_the_tensors_match_nothing(
    vit: Any, merge: Merge, tmp_path: Path
) -> None:
    adapted(vit, ["q_proj"], tmp_path)
    path = tmp_path / "base" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "architectures": None}))
    with pytest.raises(UserError) as error:
        merge(tmp_path / "base", tmp_path / "adapter")
    assert "4 tensors of the adapter match nothing in the base" in str(error.value)


def test_a_stack_of_experts_is_found_by_its_neighbours() -> None:
    files = [f"thinker.model.layers.0.mlp.experts.{number}.up_proj.weight" for number in (0, 1)]
    names = {
        "thinker.model.language_model.layers.0.mlp.gate": "thinker.model.layers.0.mlp.gate",
        "thinker.model.language_model.layers.0.mlp.gateway": "thinker.other.layers.0.mlp.gate",
    }
    experts = "thinker.model.language_model.layers.0.mlp.experts"
    classed = ClassNames(Base(Checkpoint(dict.fromkeys(files)), {}))  # type: ignore[arg-type] # names
    classed.__dict__["names"] = names
    assert classed.of([experts, experts.replace("0", "1")]) == {
        experts: "thinker.model.layers.0.mlp.experts"
    }
