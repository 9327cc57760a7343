"""Names of adapter tensors in every naming, and the modules of the base that they mean."""

from __future__ import annotations

import pytest

from hfconvert.lora.kohya import is_kohya, parse_kohya
from hfconvert.lora.naming import Key, naming_of, parse_names
from hfconvert.lora.renames import IDENTITY, candidates, find_names
from hfconvert.lora.words import dotted

P = "base_model.model."


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (f"{P}m.q_proj.lora_A.weight", Key("m.q_proj", "lora_A.weight")),
        (f"{P}m.q_proj.lora_A.default.weight", Key("m.q_proj", "lora_A.weight")),
        (f"{P}{P}m.q_proj.lora_B.weight", Key("m.q_proj", "lora_B.weight")),
        (f"module.{P}m.q_proj.lora_B.weight", Key("m.q_proj", "lora_B.weight")),
        (f"{P}m.wte.lora_embedding_A.default", Key("m.wte", "lora_embedding_A")),
        (f"{P}m.q.lora_magnitude_vector", Key("m.q", "lora_magnitude_vector")),
        (f"{P}m.experts.base_layer.lora_A.weight", Key("m.experts", "base_layer.lora_A.weight")),
        (f"{P}m.q.base_layer.bias", Key("m.q", "base_layer.bias")),
        (f"{P}score.modules_to_save.default.weight", Key("score", "weight")),
        (f"{P}lm_head.weight", Key("lm_head", "weight")),
        ("base_model.vera_A", Key("", "vera_A")),
        (
            f"{P}a.attn.base_layer.out_proj.lora_A.weight",
            Key("a.attn", "base_layer.out_proj.lora_A.weight"),
        ),
        (
            f"{P}e.token_adapter.trainable_tokens_delta",
            Key("e", "token_adapter.trainable_tokens_delta"),
        ),
        (
            f"{P}prompt_encoder.layers.0.q.lora_A.weight",
            Key("prompt_encoder.layers.0.q", "lora_A.weight"),
        ),
    ],
)
def test_names_as_peft_writes_them(name: str, key: Key) -> None:
    assert naming_of([name]) == "peft"
    assert parse_names([name], "peft") == {name: key}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("unet.down.to_q.lora_A.weight", Key("down.to_q", "lora_A.weight", "unet")),
        (
            "unet.a.attn1.processor.to_k_lora.up.weight",
            Key("a.attn1.to_k", "lora_B.weight", "unet"),
        ),
        (
            "unet.a.attn1.processor.to_out_lora.down.weight",
            Key("a.attn1.to_out.0", "lora_A.weight", "unet"),
        ),
        (
            "text_encoder.q_proj.lora_linear_layer.down.weight",
            Key("q_proj", "lora_A.weight", "text_encoder"),
        ),
    ],
)
def test_names_as_diffusers_writes_them(name: str, key: Key) -> None:
    assert naming_of([name]) == "diffusers"
    assert parse_names([name], "diffusers") == {name: key}


def test_names_as_kohya_writes_them() -> None:
    names = ["lora_unet_a_b_0_to_q.lora_down.weight", "lora_te2_x_fc1.alpha"]
    assert is_kohya(names)
    assert not is_kohya([*names, "model.norm.weight"])
    assert parse_kohya(names) == {
        names[0]: Key("a_b_0_to_q", "lora_A.weight", "unet"),
        names[1]: Key("x_fc1", "alpha", "text_encoder_2"),
    }


@pytest.mark.parametrize(
    ("flat", "name"),
    [
        (
            "down_blocks_0_attentions_1_transformer_blocks_0_attn1_to_out_0",
            "down_blocks.0.attentions.1.transformer_blocks.0.attn1.to_out.0",
        ),
        (
            "text_model_encoder_layers_11_self_attn_q_proj",
            "text_model.encoder.layers.11.self_attn.q_proj",
        ),
        ("single_transformer_blocks_3_proj_mlp", "single_transformer_blocks.3.proj_mlp"),
        ("my_own_module_0", None),
    ],
)
def test_dots_are_put_back_where_every_word_is_known(flat: str, name: str | None) -> None:
    assert dotted(flat) == name


def test_a_rename_and_its_inverse() -> None:
    for rename in candidates():
        name = f"{rename.front[0]}layers.0{rename.inner[0] or '.'}gate"
        other = rename(name)
        assert other is not None
        assert rename.back(other) == name


def test_the_rename_that_finds_most_is_taken_and_the_identity_before_all() -> None:
    base = {"model.language_model.layers.0.q", "model.language_model.layers.1.q", "lm_head"}
    found = find_names(["model.layers.0.q", "model.layers.1.q", "lm_head"], base.__contains__)
    assert {name: other for name, (other, _) in found.items()} == {
        "model.layers.0.q": "model.language_model.layers.0.q",
        "model.layers.1.q": "model.language_model.layers.1.q",
        "lm_head": "lm_head",
    }
    assert found["lm_head"][1] == IDENTITY
    assert find_names(["other.q"], base.__contains__) == {}
