"""What is wrong with an adapter is told before anything is made: all of it at once, with its exit code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hfconvert.errors import UserError
from hfconvert.planning.plan import Plan

State = dict[str, torch.Tensor]
Q0 = "base_model.model.model.layers.0.self_attn.q_proj"
Change = Callable[[State, dict[str, Any]], None]


@pytest.fixture
def broken(zoo: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of an adapter of the zoo, with its tensors and its configuration changed."""

    def make(change: Change, case: str = "lora_plain", name: str = "broken") -> Path:
        folder = tmp_path / name
        shutil.copytree(zoo / case / "adapter", folder)
        config = json.loads((folder / "adapter_config.json").read_text())
        state = load_file(folder / "adapter_model.safetensors")
        change(state, config)
        save_file(state, folder / "adapter_model.safetensors")
        (folder / "adapter_config.json").write_text(json.dumps(config))
        return folder

    return make


def half(state: State, config: dict[str, Any]) -> None:
    del state[f"{Q0}.lora_B.weight"]


def absent(state: State, config: dict[str, Any]) -> None:
    for one in "AB":
        del state[f"{Q0}.lora_{one}.weight"]


def absent_with_noise(state: State, config: dict[str, Any]) -> None:
    absent(state, config)
    config["init_lora_weights"] = False


def stray(state: State, config: dict[str, Any]) -> None:
    state["base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight"] = torch.ones(4, 32)


def ranked(state: State, config: dict[str, Any]) -> None:
    config["r"] = 3


def sized(state: State, config: dict[str, Any]) -> None:
    state[f"{Q0}.lora_A.weight"] = torch.ones(4, 31)


def unequal(state: State, config: dict[str, Any]) -> None:
    state[f"{Q0}.lora_B.weight"] = torch.ones(32, 5)


def empty(state: State, config: dict[str, Any]) -> None:
    state.clear()


def sizeless(state: State, config: dict[str, Any]) -> None:
    for name in list(state):
        state[name] = torch.empty(0)


def unknown(state: State, config: dict[str, Any]) -> None:
    config |= {"twice_as_good": True, "unset": None}


def unsaved(state: State, config: dict[str, Any]) -> None:
    config["modules_to_save"] = ["lm_head"]


def tokens(state: State, config: dict[str, Any]) -> None:
    config["trainable_token_indices"] = {"embed_tokens": [1, 2]}
    name = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"
    state[name] = torch.ones(3, 32)


def far_tokens(state: State, config: dict[str, Any]) -> None:
    config["trainable_token_indices"] = {"embed_tokens": [1, 99999]}
    name = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"
    state[name] = torch.ones(2, 32)


def short_tokens(state: State, config: dict[str, Any]) -> None:
    tokens(state, config)
    name = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"
    state[name] = torch.ones(2, 5)


def doubled_tokens(state: State, config: dict[str, Any]) -> None:
    tokens(state, config)
    config["trainable_token_indices"] = {"embed_tokens": [1, 2, 1]}


def head_of_integers(state: State, config: dict[str, Any]) -> None:
    config["modules_to_save"] = ["norm"]
    state["base_model.model.model.norm.weight"] = torch.ones(32, dtype=torch.int32)


def extra(state: State, config: dict[str, Any]) -> None:
    state[f"{Q0}.lora_C.weight"] = torch.ones(2, 2)


def biased(state: State, config: dict[str, Any]) -> None:
    config["lora_bias"] = True
    state[f"{Q0}.lora_B.bias"] = torch.ones(32)


def twice(state: State, config: dict[str, Any]) -> None:
    name = f"{Q0}.lora_A.weight".removeprefix("base_model.model.")
    state[name] = state[f"{Q0}.lora_A.weight"] + 1


def of_two_adapters(state: State, config: dict[str, Any]) -> None:
    for one in "AB":
        state[f"{Q0}.lora_{one}.second.weight"] = state[f"{Q0}.lora_{one}.weight"] + 1


def of_no_module(state: State, config: dict[str, Any]) -> None:
    state["base_model.model.left_over"] = torch.ones(3)


def of_integers(state: State, config: dict[str, Any]) -> None:
    state[f"{Q0}.lora_A.weight"] = torch.ones(4, 32, dtype=torch.int32)


def without_dimensions(state: State, config: dict[str, Any]) -> None:
    state[f"{Q0}.lora_A.weight"] = torch.tensor(1.0)


def endless(state: State, config: dict[str, Any]) -> None:
    config["lora_alpha"] = float("inf")


SAID: Mapping[Change, str] = {
    twice: "1 parameters of modules are there more than once",
    of_two_adapters: "2 parameters of modules are there more than once",
    of_no_module: "1 tensors belong to no module: `left_over`",
    of_integers: "A of its update is I32, which is no floating type",
    without_dimensions: "lora_A.weight is a single number",
    endless: "`lora_alpha` is Infinity, and has to be a number",
    half: "lora_A.weight is there without its other half",
    absent: "1 modules are targets of the configuration and have no tensors",
    absent_with_noise: "PEFT would fill them with noise",
    stray: "1 tensors of the adapter match nothing in the base",
    ranked: "the configuration says rank 3, the tensors have rank 4",
    sized: "do not fit model.layers.0.self_attn.q_proj.weight, which is [32, 32]",
    unequal: "do not fit model.layers.0.self_attn.q_proj.weight, which is [32, 32]",
    empty: "there is no tensor in it",
    sizeless: "8 of 8 tensors hold no values",
    unknown: "`twice_as_good: true`",
    unsaved: "`modules_to_save` names `lm_head`, and the adapter has no tensors of it",
    tokens: "2 token indices are configured, 3 rows are stored",
    far_tokens: "token 99999 is trained, the base has",
    short_tokens: "rows of [5] are stored for the tokens [1, 2], model.embed_tokens.weight",
    doubled_tokens: "are stored for the tokens [1, 2, 1]",
    head_of_integers: "model.norm.weight of the base is BF16, what takes its place is I32",
    extra: "1 tensors of the adapter match nothing",
    biased: "the module of the base has no bias to add it to",
}


@pytest.mark.parametrize("change", SAID, ids=lambda change: change.__name__)
def test_it_is_said_with_the_code_for_another_adapter(
    change: Change, broken: Callable[..., Path], zoo: Path, planned: Callable[..., Plan]
) -> None:
    with pytest.raises(UserError) as error:
        planned(zoo / "base/llama", broken(change))
    assert error.value.exit == 3
    assert SAID[change] in str(error.value)
    assert all(problem.why and problem.do and problem.subject for problem in error.value.problems)


def test_a_base_of_integers_is_said(
    zoo: Path, tmp_path: Path, planned: Callable[..., Plan]
) -> None:
    base = tmp_path / "base"
    shutil.copytree(zoo / "base/llama", base)
    state = load_file(base / "model.safetensors")
    name = "model.layers.0.self_attn.q_proj.weight"
    state[name] = torch.ones(32, 32, dtype=torch.int8)
    save_file(state, base / "model.safetensors")
    with pytest.raises(UserError, match=f"{name} of the base is I8, to which nothing can be added"):
        planned(base, zoo / "lora_plain/adapter")


def test_all_of_it_comes_at_once(
    broken: Callable[..., Path], zoo: Path, planned: Callable[..., Plan]
) -> None:
    def everything(state: State, config: dict[str, Any]) -> None:
        for change in (half, ranked, stray, unsaved):
            change(state, config)
        config["target_modules"] = ["q_proj", "v_proj", "o_proj"]

    with pytest.raises(UserError) as error:
        planned(zoo / "base/llama", broken(everything))
    text = str(error.value)
    assert all(SAID[change] in text for change in (half, ranked, stray, unsaved))
    assert "2 modules are targets of the configuration and have no tensors" in text


def test_adapters_that_cannot_be_opened_do_not_hide_each_other(
    broken: Callable[..., Path], zoo: Path, planned: Callable[..., Plan]
) -> None:
    adapters = [broken(change, name=change.__name__) for change in (empty, unknown, sizeless)]
    with pytest.raises(UserError) as error:
        planned(zoo / "base/llama", *adapters)
    assert error.value.exit == 3
    assert len(error.value.problems) == 3


def test_layers_that_were_gathered_in_part_are_named(
    broken: Callable[..., Path], zoo: Path, planned: Callable[..., Plan]
) -> None:
    def partly(state: State, config: dict[str, Any]) -> None:
        state[f"{Q0}.lora_B.weight"] = torch.empty(0)

    with pytest.raises(UserError, match="1 of 8 tensors hold no values: ") as error:
        planned(zoo / "base/llama", broken(partly))
    assert f"{Q0}.lora_B.weight" in str(error.value)
