"""Section J: mixtures of experts, and the layouts of transformers 4 and 5."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

State = dict[str, torch.Tensor]
Convert = Callable[..., Any]
Store = Callable[..., Path]
EXPERTS, R = 3, 2
FRONT = "base_model.model.model.layers.0.mlp.experts."
NAME = "model.layers.0.mlp.experts.down_proj"


def adapter(
    store: Store, tensors: Mapping[str, torch.Tensor], parameters: list[str], **fields: Any
) -> dict[str, Any]:
    config = {
        "peft_type": "LORA",
        "r": R,
        "lora_alpha": 2 * R,
        "target_modules": [],
        "target_parameters": parameters,
        "base_model_name_or_path": "./base",
        **fields,
    }
    files = {"adapter_model.safetensors": dict(tensors), "adapter_config.json": config}
    return {"adapters": [{"adapter": str(store(files, folder="adapter"))}]}


def update(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """[experts, out, in]: A has the expert slowest, B fastest."""
    slow = a.reshape(EXPERTS, R, -1)
    fast = b.reshape(len(b), R, EXPERTS)
    return torch.stack([fast[:, :, e] @ slow[e] for e in range(EXPERTS)]) * 2


def test_139_the_shapes_tell_the_layout(store: Store, convert: Convert) -> None:
    base = {NAME: torch.randn(EXPERTS, 8, 4)}
    source = store({"model.safetensors": base})
    new = torch.randn(EXPERTS * R, 4), torch.randn(8, EXPERTS * R)
    tensors = {f"{FRONT}lora_A.weight": new[0], f"{FRONT}lora_B.weight": new[1]}
    done = convert(source, lora=adapter(store, tensors, ["mlp.experts.down_proj"]))
    assert done.code == 0
    assert torch.allclose(done.tensors()[NAME], base[NAME] + update(*new), atol=1e-6)
    old = torch.randn(EXPERTS * R, 8), torch.randn(4, EXPERTS * R)
    tensors = {f"{FRONT}lora_A.weight": old[0], f"{FRONT}lora_B.weight": old[1]}
    recipe = adapter(store, tensors, ["mlp.experts.down_proj"])
    done = convert(source, lora=recipe, output="old")
    expected = base[NAME] + update(*old).transpose(1, 2)
    assert torch.allclose(done.tensors()[NAME], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("version", "turned"), [("0.18.1", True), ("0.21.2", False), ("0.19.0", None), (None, None)]
)
def test_139_square_experts_ask_for_the_version(
    version: str | None, turned: bool | None, store: Store, convert: Convert
) -> None:
    base = {NAME: torch.randn(EXPERTS, 6, 6)}
    a, b = torch.randn(EXPERTS * R, 6), torch.randn(6, EXPERTS * R)
    tensors = {f"{FRONT}lora_A.weight": a, f"{FRONT}lora_B.weight": b}
    fields = {"peft_version": version} if version else {}
    recipe = adapter(store, tensors, ["mlp.experts.down_proj"], **fields)
    source = store({"model.safetensors": base})
    done = convert(source, lora=recipe)
    if turned is None:
        assert done.code == 2
        assert "lora.peft_version" in done.said
        done = convert(source, lora={**recipe, "peft_version": "0.21.0"}, output="said")
    delta = update(a, b)
    expected = base[NAME] + (delta.transpose(1, 2) if turned else delta)
    assert torch.allclose(done.tensors()[NAME], expected, atol=1e-6)


def test_142_experts_that_are_targets_and_have_no_tensors(store: Store, convert: Convert) -> None:
    attention = "model.layers.0.self_attn.q_proj"
    base = {NAME: torch.randn(EXPERTS, 8, 4), f"{attention}.weight": torch.randn(8, 8)}
    tensors = {
        f"base_model.model.{attention}.lora_A.weight": torch.randn(R, 8),
        f"base_model.model.{attention}.lora_B.weight": torch.randn(8, R),
    }
    recipe = adapter(store, tensors, ["mlp.experts.down_proj"], target_modules=["q_proj"])
    done = convert(store({"model.safetensors": base}), lora=recipe)
    assert done.code == 3
    assert "targets of the configuration and have no tensors" in done.said
    assert "experts" in done.said


def stacked(generator: torch.Generator) -> State:
    """A and B of both parameters of the experts, nested as PEFT nests them."""
    return {
        f"{FRONT}base_layer.lora_A.weight": torch.randn(EXPERTS * R, 8, generator=generator),
        f"{FRONT}base_layer.lora_B.weight": torch.randn(8, EXPERTS * R, generator=generator),
        f"{FRONT}lora_A.weight": torch.randn(EXPERTS * R, 4, generator=generator),
        f"{FRONT}lora_B.weight": torch.randn(8, EXPERTS * R, generator=generator),
    }


BOTH = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]


def test_143_two_parameters_of_one_module(store: Store, convert: Convert) -> None:
    generator = torch.Generator().manual_seed(2)
    gate = "model.layers.0.mlp.experts.gate_up_proj"
    base = {gate: torch.randn(EXPERTS, 8, 8), NAME: torch.randn(EXPERTS, 8, 4)}
    tensors = stacked(generator)
    done = convert(
        store({"model.safetensors": base}),
        lora=adapter(store, tensors, BOTH, peft_version="0.21.2"),
    )
    assert done.code == 0
    found = done.tensors()
    inner = [tensors[f"{FRONT}base_layer.lora_{one}.weight"] for one in "AB"]
    outer = [tensors[f"{FRONT}lora_{one}.weight"] for one in "AB"]
    assert torch.allclose(found[gate], base[gate] + update(*inner), atol=1e-6)
    assert torch.allclose(found[NAME], base[NAME] + update(*outer), atol=1e-6)


def test_143_factors_of_three_dimensions_by_projection(store: Store, convert: Convert) -> None:
    base = {NAME: torch.randn(EXPERTS, 8, 4)}
    a, b = torch.randn(EXPERTS, R, 4), torch.randn(EXPERTS, 8, R)
    tensors = {f"{FRONT}down_proj.lora_A.weight": a, f"{FRONT}down_proj.lora_B.weight": b}
    recipe = adapter(store, tensors, ["mlp.experts.down_proj"])
    done = convert(store({"model.safetensors": base}), lora=recipe)
    assert done.code == 0
    assert torch.allclose(done.tensors()[NAME], base[NAME] + (b @ a) * 2, atol=1e-6)


def test_145_experts_one_by_one_in_and_out(store: Store, convert: Convert) -> None:
    generator = torch.Generator().manual_seed(3)
    base = {}
    for expert in range(EXPERTS):
        front = f"model.layers.0.mlp.experts.{expert}."
        base[f"{front}gate_proj.weight"] = torch.randn(4, 8)
        base[f"{front}up_proj.weight"] = torch.randn(4, 8)
        base[f"{front}down_proj.weight"] = torch.randn(8, 4)
    tensors = stacked(generator)
    recipe = adapter(store, tensors, BOTH, peft_version="0.21.2")
    done = convert(store({"model.safetensors": base}), lora=recipe)
    assert done.code == 0
    found = done.tensors()
    assert found.keys() == base.keys()
    gates = update(*[tensors[f"{FRONT}base_layer.lora_{one}.weight"] for one in "AB"])
    downs = update(*[tensors[f"{FRONT}lora_{one}.weight"] for one in "AB"])
    for expert in range(EXPERTS):
        front = f"model.layers.0.mlp.experts.{expert}."
        deltas = {"gate_proj": gates[expert, :4], "up_proj": gates[expert, 4:]}
        for projection, delta in {**deltas, "down_proj": downs[expert]}.items():
            name = f"{front}{projection}.weight"
            assert torch.allclose(found[name], base[name] + delta, atol=1e-6), name


def test_146_the_index_has_the_names_of_the_base(
    store: Store, convert: Convert, sharded: Callable[..., dict[str, Any]]
) -> None:
    base = {NAME: torch.randn(EXPERTS, 8, 4), "model.norm.weight": torch.ones(8)}
    files = sharded(base, 2, stem="model", ending="safetensors")
    a, b = torch.randn(EXPERTS * R, 4), torch.randn(8, EXPERTS * R)
    tensors = {f"{FRONT}lora_A.weight": a, f"{FRONT}lora_B.weight": b}
    recipe = adapter(store, tensors, ["mlp.experts.down_proj"])
    done = convert(store(files), lora=recipe, options=["--set", "output.max_shard_size=300B"])
    assert done.code == 0
    assert done.json("model.safetensors.index.json")["weight_map"].keys() == base.keys()
