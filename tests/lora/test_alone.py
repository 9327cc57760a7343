"""Adapters that are converted by themselves, and checkpoints that hold base and adapter together."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from hfconvert.errors import UserError
from hfconvert.planning.plan import Plan, make_plan
from hfconvert.recipe.loading import load

State = dict[str, torch.Tensor]


@pytest.fixture
def alone(tmp_path: Path) -> Callable[..., Plan]:
    """The plan of a source by itself."""

    def make(source: Path, **recipe: Any) -> Plan:
        path = tmp_path / "alone.yaml"
        path.write_text(json.dumps({"version": 1, "source": {"path": str(source)}, **recipe}))
        return make_plan(load(path))

    return make


@pytest.fixture
def kohya(zoo: Path, tmp_path: Path) -> Path:
    """kohya's file with the text encoder alone."""
    folder = tmp_path / "kohya"
    folder.mkdir()
    source = zoo / "diffusers/kohya/lora.safetensors"
    with safe_open(source, "pt") as file:
        names = [name for name in file.keys() if name.startswith("lora_te_")]  # noqa: SIM118 - no mapping
        state = {name: file.get_tensor(name) for name in names}
        save_file(state, folder / "lora.safetensors", metadata=file.metadata())
    return folder


def files(plan: Plan) -> set[str]:
    return {
        *(shard.file for shard in plan.shards),
        *(text.file for text in plan.texts),
        *(copy.name for copy in plan.copies),
    }


def test_that_nothing_is_merged_is_said(zoo: Path, alone: Callable[..., Plan]) -> None:
    (said,) = (
        one for one in alone(zoo / "lora_bin/adapter").findings if "by itself" in one.message
    )
    assert (said.level, said.check) == ("info", "lora")
    assert "lora.adapters" in said.hint


def test_an_adapter_that_is_not_there_is_looked_for_at_its_place(
    zoo: Path, alone: Callable[..., Plan], tmp_path: Path
) -> None:
    missing = {"adapters": [{"adapter": str(tmp_path / "nowhere")}]}
    with pytest.raises(UserError) as caught:
        alone(zoo / "lora_plain/base", lora=missing)
    (problem,) = caught.value.problems
    assert problem.what == "there is no such file or folder"
    assert problem.do.startswith(f"correct it: {tmp_path / 'alone.yaml'}:1:")


def test_a_pickle_becomes_safetensors_and_keeps_its_configuration(
    zoo: Path, alone: Callable[..., Plan], tensors: Callable[[Plan], State]
) -> None:
    source = zoo / "lora_bin/adapter"
    plan = alone(source)
    expected = torch.load(source / "adapter_model.bin", weights_only=True)
    found = tensors(plan)
    assert files(plan) == {"adapter_model.safetensors", "adapter_config.json"}
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_an_adapter_never_travels_without_its_configuration(
    zoo: Path, tmp_path: Path, alone: Callable[..., Plan]
) -> None:
    lost = tmp_path / "lost"
    lost.mkdir()
    shutil.copy(zoo / "lora_plain/adapter/adapter_model.safetensors", lost)
    with pytest.raises(UserError, match="no file records its alpha") as error:
        alone(lost)
    assert error.value.exit == 2


def test_kohya_becomes_peft_with_its_configuration(
    kohya: Path, alone: Callable[..., Plan], tensors: Callable[[Plan], State]
) -> None:
    plan = alone(kohya)
    before, after = load_file(kohya / "lora.safetensors"), tensors(plan)
    flat = "lora_te_text_model_encoder_layers_0_self_attn_q_proj"
    module = "base_model.model.text_model.encoder.layers.0.self_attn.q_proj"
    assert torch.equal(after[f"{module}.lora_A.weight"], before[f"{flat}.lora_down.weight"])
    assert torch.equal(after[f"{module}.lora_B.weight"], before[f"{flat}.lora_up.weight"])
    assert len(after) == 20
    assert files(plan) == {"adapter_model.safetensors", "adapter_config.json"}
    config = json.loads(plan.texts[0].content)
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 2, 6.0)
    assert {drop.name for drop in plan.dropped} == {name for name in before if "alpha" in name}


def put(root: torch.nn.Module, path: str, leaf: torch.nn.Module) -> None:
    """Plain modules along the path, and the leaf at its end."""
    *parents, last = path.split(".")
    for part in parents:
        if part not in root._modules:
            root.add_module(part, torch.nn.Module())
        root = root.get_submodule(part)
    root.add_module(last, leaf)


@pytest.mark.filterwarnings("ignore")
def test_peft_reads_what_became_of_kohya(
    kohya: Path,
    zoo: Path,
    alone: Callable[..., Plan],
    tensors: Callable[[Plan], State],
    tmp_path: Path,
) -> None:
    """PEFT merges it into a model of that structure, to the right answer."""
    from peft import PeftModel

    plan = alone(kohya)
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    save_file(tensors(plan), adapter / "adapter_model.safetensors")
    (adapter / "adapter_config.json").write_bytes(plan.texts[0].content)
    base = load_file(zoo / "diffusers/base/text_encoder/model.safetensors")
    net = torch.nn.Module()
    for name, weight in base.items():
        module, _, parameter = f"text_model.{name}".rpartition(".")
        if parameter == "weight" and weight.ndim == 2:
            put(net, module, torch.nn.Linear(*weight.shape[::-1]))
            net.get_submodule(module).weight = torch.nn.Parameter(weight)
    merged = PeftModel.from_pretrained(net, adapter).merge_and_unload().state_dict()
    for name, expected in load_file(zoo / "diffusers/expected_text_encoder.safetensors").items():
        assert torch.allclose(merged[f"text_model.{name}"], expected, rtol=0, atol=1e-6), name


def test_an_empty_key_map_keeps_kohyas_names(kohya: Path, alone: Callable[..., Plan]) -> None:
    plan = alone(kohya, key_map=[])
    names = {placed.name for shard in plan.shards for placed in shard.tensors}
    assert names == load_file(kohya / "lora.safetensors").keys()
    assert files(plan) == {"lora.safetensors"}


def test_names_that_could_be_read_in_several_ways_stay(
    zoo: Path, alone: Callable[..., Plan]
) -> None:
    plan = alone(zoo / "diffusers/kohya")
    said = [one.message for one in plan.findings if one.level == "warning"]
    assert any("the names stay as kohya's scripts write them" in message for message in said)


@pytest.fixture
def together(zoo: Path, tmp_path: Path) -> Path:
    """The state dict of a model with its adapter in place, as a training run saves it."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    folder, adapter = tmp_path / "together", zoo / "lora_modules_to_save/adapter"
    folder.mkdir()
    base = AutoModelForCausalLM.from_pretrained(zoo / "base/llama", dtype=torch.bfloat16)
    model = PeftModel.from_pretrained(base, adapter)
    state = {name: one.clone().contiguous() for name, one in model.state_dict().items()}
    save_file(state, folder / "model.safetensors")
    shutil.copy(zoo / "base/llama/config.json", folder)
    shutil.copy(adapter / "adapter_config.json", folder)
    return folder


@pytest.mark.filterwarnings("ignore")
def test_base_and_adapter_in_one_file_are_merged(
    together: Path, zoo: Path, merge: Callable[..., State], planned: Callable[..., Plan]
) -> None:
    apart = merge(zoo / "base/llama", zoo / "lora_modules_to_save/adapter")
    ours = merge(together, together)
    assert ours.keys() == apart.keys()
    assert all(torch.equal(ours[name], apart[name]) for name in apart)
    assert "adapter_config.json" not in files(planned(together, together))


@pytest.mark.filterwarnings("ignore")
def test_base_and_adapter_in_one_file_with_nothing_said_of_a_merge(
    together: Path, alone: Callable[..., Plan], tensors: Callable[[Plan], State]
) -> None:
    plan = alone(together)
    assert tensors(plan).keys() == load_file(together / "model.safetensors").keys()
    assert any("holds a base with its adapter in place" in one.message for one in plan.findings)
