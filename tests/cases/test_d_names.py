"""Section D: names of tensors that wrappers, versions and libraries changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

State = dict[str, torch.Tensor]
Convert = Callable[..., Any]
Store = Callable[..., Path]


def prefixed(state: State, prefix: str) -> State:
    return {prefix + name: tensor for name, tensor in state.items()}


def test_23_a_prefix_on_every_key_is_stripped_and_counted(
    tiny: State, store: Store, convert: Convert
) -> None:
    source = store({"pytorch_model.bin": prefixed(tiny, "_orig_mod.")})
    done = convert(source, key_map=[{"strip_prefix": ["_orig_mod."]}])
    assert done.code == 0
    assert done.holds(tiny)
    assert "`_orig_mod.` was taken off 21 names" in done.findings("info")


@pytest.mark.filterwarnings(
    "ignore:.torch.jit.*is deprecated:DeprecationWarning"
)  # torch 2.13's own
def test_23_a_real_compiled_module(store: Store, convert: Convert) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    compiled: Any = torch.compile(module)
    source = store({"model.pt": compiled.state_dict()})
    done = convert(source, key_map=[{"strip_prefix": ["module.", "_orig_mod."]}])
    assert done.code == 0
    assert done.holds(module.state_dict())
    assert "`module.` matched 0 keys" in done.findings("warning")


def test_25_mixed_names_stop_with_both_counts(store: Store, convert: Convert) -> None:
    names = ["_orig_mod.a", "_orig_mod.b", "_orig_mod.c", "a", "x", "y"]
    source = store({"model.pt": {name: torch.full((2,), i) for i, name in enumerate(names)}})
    done = convert(source, key_map=[{"strip_prefix": ["_orig_mod."]}])
    assert done.code == 2
    errors = done.findings("error")
    assert "`_orig_mod.` is at the front of 3 names, and 3 do not have it" in errors
    assert "`a` from `_orig_mod.a`, `a`" in errors
    assert "recipe.yaml:" in errors


def test_25_the_recipe_can_say_which_are_meant(store: Store, convert: Convert) -> None:
    names = ["_orig_mod.a", "_orig_mod.b", "a", "x"]
    state = {name: torch.full((2,), i) for i, name in enumerate(names)}
    steps = [{"drop": ["a"]}, {"rename": {"_orig_mod.*": "*"}}]
    done = convert(store({"model.pt": state}), key_map=steps)
    assert done.code == 0
    expected = {"a": state["_orig_mod.a"], "b": state["_orig_mod.b"], "x": state["x"]}
    assert done.holds(expected)


def test_26_a_rule_that_drops_everything(tiny: State, store: Store, convert: Convert) -> None:
    source = store({"pytorch_model.bin": prefixed(tiny, "_orig_mod.")})
    done = convert(source, key_map=[{"drop": ["_orig_mod.*"]}])
    assert done.code == 2
    assert "rule drops 100 % of tensors" in done.findings("error")
    assert not done.output.exists()


def test_26_every_tensor_is_accounted_for(tiny: State, store: Store, convert: Convert) -> None:
    source = store({"pytorch_model.bin": tiny})
    done = convert(source, command="plan", key_map=[{"drop": ["*norm*"]}])
    assert "21 tensors: 16 mapped, 5 dropped" in done.findings("info")
    dropped = {one["name"]: one["rule"] for one in done.document["dropped"]}
    assert dropped == {name: "drop: *norm*" for name in tiny if "norm" in name}
    assert sorted([*dropped, *(one["name"] for one in done.document["tensors"])]) == sorted(tiny)


def test_28_a_prefix_that_is_absent_cuts_nothing(
    tiny: State, store: Store, convert: Convert
) -> None:
    done = convert(store({"pytorch_model.bin": tiny}), key_map=[{"strip_prefix": ["_orig_mod."]}])
    assert done.code == 2
    assert "matched 0 keys: `_orig_mod.`" in done.findings("error")


def test_29_wrappers_go_anywhere_in_the_path(store: Store, convert: Convert) -> None:
    inner = "layers.0._fsdp_wrapped_module.attn._checkpoint_wrapped_module.q.weight"
    state = {inner: torch.arange(4.0), "embed.weight": torch.arange(3.0)}
    wrappers = ["_fsdp_wrapped_module.", "_checkpoint_wrapped_module."]
    done = convert(store({"model.pt": state}), key_map=[{"strip_prefix": wrappers}])
    assert done.code == 0
    expected = {"layers.0.attn.q.weight": state[inner], "embed.weight": state["embed.weight"]}
    assert done.holds(expected)


def old_bert() -> State:
    layer = "bert.encoder.layer.0.output"
    return {
        "bert.embeddings.LayerNorm.gamma": torch.arange(8.0),
        "bert.embeddings.LayerNorm.beta": torch.arange(8.0) + 1,
        f"{layer}.dense.weight": torch.ones(8, 8),
        f"{layer}.LayerNorm.gamma": torch.arange(8.0) + 2,
        f"{layer}.LayerNorm.beta": torch.arange(8.0) + 3,
    }


def test_29_a_prefix_that_the_target_wants_is_added(
    tiny: State, store: Store, convert: Convert
) -> None:
    bare = {
        name.removeprefix("model."): tensor
        for name, tensor in tiny.items()
        if "lm_head" not in name
    }
    source = store({"pytorch_model.bin": prefixed(bare, "module._orig_mod.")})
    steps = [{"strip_prefix": ["_orig_mod.", "module."]}, {"add_prefix": "model."}]
    done = convert(source, key_map=steps)
    assert done.code == 0
    assert done.holds(prefixed(bare, "model."))


def test_31_historic_names_are_kept_unless_the_recipe_modernises(
    store: Store, convert: Convert
) -> None:
    state = old_bert()
    source = store({"pytorch_model.bin": state}, config={"model_type": "bert"})
    assert convert(source, output="kept").holds(state)
    rules = {"*.LayerNorm.gamma": "*.LayerNorm.weight", "*.LayerNorm.beta": "*.LayerNorm.bias"}
    done = convert(source, output="modern", key_map=[{"rename": rules}])
    modern = {
        name.replace("gamma", "weight").replace("beta", "bias"): tensor
        for name, tensor in state.items()
    }
    assert done.holds(modern)


def test_32_weight_norm_is_kept_unless_the_recipe_renames(store: Store, convert: Convert) -> None:
    state = {"conv.weight_g": torch.rand(1, 1, 4) + 1, "conv.weight_v": torch.randn(8, 4, 4)}
    source = store({"pytorch_model.bin": state})
    assert convert(source, output="kept").holds(state)
    rules = {
        "*.weight_g": "*.parametrizations.weight.original0",
        "*.weight_v": "*.parametrizations.weight.original1",
    }
    done = convert(source, output="new", key_map=[{"rename": rules}])
    conv = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(4, 8, 4, bias=False), dim=2)
    module = torch.nn.ModuleDict({"conv": conv})
    module.load_state_dict(done.tensors(), strict=True)
    expected = torch._weight_norm(state["conv.weight_v"], state["conv.weight_g"], 2)
    assert torch.equal(conv.weight, expected)


def test_34_the_names_of_the_source_are_reproduced_exactly(store: Store, convert: Convert) -> None:
    base = {
        "model.language_model.layers.0.q.weight": torch.ones(2, 2),
        "model.language_model.norm.weight": torch.ones(2),
        "model.visual.blocks.0.w": torch.zeros(2),
        "lm_head.weight": torch.ones(3, 2),
    }
    config = {"model_type": "qwen2_vl", "tie_word_embeddings": False}
    source = store({"pytorch_model.bin": base}, config=config)
    assert convert(source).holds(base)


def test_34_one_layout_is_mapped_onto_the_other(store: Store, convert: Convert) -> None:
    merged = {
        "model.layers.0.q.weight": torch.ones(2, 2),
        "model.norm.weight": torch.ones(2),
        "visual.blocks.0.w": torch.zeros(2),
    }
    rules = {"model.*": "model.language_model.*", "visual.*": "model.visual.*"}
    source = store({"pytorch_model.bin": merged})
    done = convert(source, key_map=[{"rename": rules}])
    assert set(done.tensors()) == {
        "model.language_model.layers.0.q.weight",
        "model.language_model.norm.weight",
        "model.visual.blocks.0.w",
    }
    back = {"model.language_model.*": "model.*", "model.visual.*": "visual.*"}
    again = convert(done.output, output="back", key_map=[{"rename": back}])
    assert again.holds(merged)
