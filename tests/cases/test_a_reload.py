"""Section A, where a model has to come back: what a strict reload restores."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

State = dict[str, torch.Tensor]
Convert = Callable[..., Any]
Store = Callable[..., Path]


def reload(cls: Any, folder: Path) -> State:
    """The state of a model that transformers loads from the folder; nothing may be missing or left over."""
    model, info = cls.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    return dict(model.state_dict())


def same(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    config = GPT2Config(
        n_embd=16, n_layer=1, n_head=2, vocab_size=32, n_positions=8, bos_token_id=1, eos_token_id=2
    )
    return GPT2LMHeadModel(config)


def roberta() -> Any:
    from transformers import RobertaConfig, RobertaForMaskedLM

    torch.manual_seed(1)
    return RobertaForMaskedLM(
        RobertaConfig(
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            vocab_size=32,
            max_position_embeddings=16,
        )
    )


def saved(model: Any, folder: Path) -> State:
    """As Trainer wrote it before safetensors: `pytorch_model.bin` of the state dict, and config.json."""
    folder.mkdir()
    state = dict(model.state_dict())
    torch.save(state, folder / "pytorch_model.bin")
    model.config.save_pretrained(folder)
    return state


def test_1_head_and_embedding_of_gpt2_are_one_storage(tmp_path: Path, convert: Convert) -> None:
    model = gpt2()
    state = saved(model, tmp_path / "source")
    done = convert(tmp_path / "source")
    assert done.code == 0
    assert state.keys() - done.tensors().keys() == {"lm_head.weight"}
    assert done.document["ties"] == [
        {"kept": "transformer.wte.weight", "dropped": "lm_head.weight"}
    ]
    assert "lm_head.weight: is transformer.wte.weight: one storage" in done.findings("info")
    assert same(reload(type(model), done.output), state)


def test_5_the_head_of_roberta_comes_back(tmp_path: Path, convert: Convert) -> None:
    model = roberta()
    state = saved(model, tmp_path / "source")
    done = convert(tmp_path / "source")
    assert state.keys() - done.tensors().keys() == {
        "lm_head.decoder.weight",
        "lm_head.decoder.bias",
    }
    assert same(reload(type(model), done.output), state)
    assert done.check("names")["measured"]["ties"] == 2


def test_5_the_new_files_are_what_is_loaded(tmp_path: Path, convert: Convert) -> None:
    """A cast tells the result from its source: a test that loaded the old folder again would see fp32."""
    model = roberta()
    state = saved(model, tmp_path / "source")
    done = convert(tmp_path / "source", dtype="bfloat16")
    loaded = reload(type(model), done.output)
    assert {name: tensor.dtype for name, tensor in loaded.items() if tensor.is_floating_point()}
    assert same(loaded, {name: tensor.bfloat16() for name, tensor in state.items()})


def test_7_a_tied_model_without_either_name_stops(
    tiny_tied: State, config_tied: dict[str, Any], store: Store, convert: Convert
) -> None:
    names = ("model.embed_tokens.weight", "lm_head.weight")
    rest = {name: tensor for name, tensor in tiny_tied.items() if name not in names}
    done = convert(store({"pytorch_model.bin": rest}, config=config_tied))
    assert done.code == 3
    assert "input embedding and head are tied, but neither is there" in done.findings("error")


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "lm_head.weight"])
def test_7_one_of_the_two_is_enough(
    tiny_tied: State, config_tied: dict[str, Any], store: Store, convert: Convert, name: str
) -> None:
    from transformers import LlamaForCausalLM

    rest = {key: tensor for key, tensor in tiny_tied.items() if key != name}
    done = convert(store({"pytorch_model.bin": rest}, config=config_tied))
    assert done.holds(rest)
    assert same(reload(LlamaForCausalLM, done.output), tiny_tied)


def test_8_equal_values_under_a_tied_configuration(
    tiny_tied: State, config_tied: dict[str, Any], store: Store, convert: Convert
) -> None:
    from transformers import LlamaForCausalLM

    broken = {name: tensor.clone() for name, tensor in tiny_tied.items()}
    done = convert(store({"pytorch_model.bin": broken}, config=config_tied))
    assert done.document["ties"] == [
        {"kept": "model.embed_tokens.weight", "dropped": "lm_head.weight"}
    ]
    assert "equal values under a tied configuration" in done.findings("info")
    assert same(reload(LlamaForCausalLM, done.output), tiny_tied)


def test_8_different_values_are_both_kept_and_said(
    tiny: State, config_tied: dict[str, Any], store: Store, convert: Convert
) -> None:
    done = convert(store({"pytorch_model.bin": tiny}, config=config_tied))
    assert done.holds(tiny)
    assert "lm_head.weight: differs from model.embed_tokens.weight" in done.findings("warning")


def test_8_one_storage_under_an_untied_configuration_is_written_twice(
    tiny_tied: State, config: dict[str, Any], store: Store, convert: Convert
) -> None:
    from transformers import LlamaForCausalLM

    done = convert(store({"pytorch_model.bin": tiny_tied}, config=config))
    assert done.holds(tiny_tied)
    assert "the configuration says that they are not tied" in done.findings("warning")
    assert same(reload(LlamaForCausalLM, done.output), tiny_tied)


def test_8_what_untie_wrote_comes_back_as_two(
    tiny_tied: State, config_tied: dict[str, Any], store: Store, convert: Convert
) -> None:
    from transformers import LlamaForCausalLM

    source = store({"pytorch_model.bin": tiny_tied}, config=config_tied)
    done = convert(source, key_map=[{"untie": {"lm_head.weight": "model.embed_tokens.weight"}}])
    assert done.holds(tiny_tied)
    assert done.json("config.json") == {**config_tied, "tie_word_embeddings": False}
    assert "an `untie` step wrote both names" in done.findings("info")
    model = LlamaForCausalLM.from_pretrained(done.output)
    assert model.lm_head.weight is not model.model.embed_tokens.weight
    assert same(reload(LlamaForCausalLM, done.output), tiny_tied)


def test_8_what_tie_dropped_comes_back(
    tiny_tied: State, config: dict[str, Any], store: Store, convert: Convert
) -> None:
    from transformers import LlamaForCausalLM

    clones = {name: tensor.clone() for name, tensor in tiny_tied.items()}
    source = store({"pytorch_model.bin": clones}, config=config)
    done = convert(source, key_map=[{"tie": {"lm_head.weight": "model.embed_tokens.weight"}}])
    assert done.json("config.json") == {**config, "tie_word_embeddings": True}
    assert "lm_head.weight" not in done.tensors()
    assert same(reload(LlamaForCausalLM, done.output), tiny_tied)


def test_8_a_tie_step_before_a_rename(store: Store, convert: Convert) -> None:
    state = {"emb.weight": torch.randn(4, 2), "head.weight": torch.zeros(4, 2), "w": torch.ones(1)}
    state["head.weight"] = state["emb.weight"].clone()
    steps = [{"tie": {"head.weight": "emb.weight"}}, {"rename": {"emb.*": "embed_tokens.*"}}]
    done = convert(store({"pytorch_model.bin": state}), key_map=steps)
    assert done.code == 0
    assert done.document["ties"] == [{"kept": "embed_tokens.weight", "dropped": "head.weight"}]
    assert done.holds({"embed_tokens.weight": state["emb.weight"], "w": state["w"]})


def test_8_a_tie_whose_kept_name_a_later_step_drops_fails(store: Store, convert: Convert) -> None:
    weight = torch.randn(4, 2)
    state = {"emb.weight": weight, "head.weight": weight.clone(), "w": torch.ones(1)}
    steps = [{"tie": {"head.weight": "emb.weight"}}, {"drop": ["emb.weight"]}]
    done = convert(store({"pytorch_model.bin": state}), key_map=steps)
    assert done.code == 1
    assert "head.weight was left out for emb.weight, which is not stored" in done.findings("error")


LOWER, UPPER = (f"model.layers.{layer}.mlp.up_proj.weight" for layer in range(2))


def test_a_tie_that_the_class_does_not_restore_is_named_with_the_step_that_mends_it(
    tiny_tied: State, config_tied: dict[str, Any], store: Store, convert: Convert
) -> None:
    from transformers import LlamaForCausalLM

    shared = {**tiny_tied, UPPER: tiny_tied[LOWER]}
    source = store({"pytorch_model.bin": shared}, config=config_tied)
    done = convert(source, output="failed", validate={"architecture": "auto"})
    assert done.code == 1
    assert f"the class does not restore them: `{UPPER}`" in done.findings("warning")
    assert f"untie: {{{UPPER}: {LOWER}}}" in json.dumps(done.document)
    mended = convert(source, key_map=[{"untie": {UPPER: LOWER}}], validate={"architecture": "auto"})
    assert mended.code == 0
    assert same(reload(LlamaForCausalLM, mended.output), shared)


def test_a_tie_that_nothing_shows_to_be_restored_is_said(
    tiny_tied: State, config_tied: dict[str, Any], store: Store, convert: Convert
) -> None:
    shared = {**tiny_tied, UPPER: tiny_tied[LOWER]}
    done = convert(store({"pytorch_model.bin": shared}, config=config_tied))
    assert f"nothing proves that a loader restores them: `{UPPER}`" in done.findings("warning")
    usual = convert(
        store({"pytorch_model.bin": tiny_tied}, config=config_tied, folder="usual"), output="second"
    )
    assert "nothing proves" not in usual.findings("warning")


def test_a_lost_tie_of_somebodys_conversion_is_a_fault(
    tiny_tied: State, config_tied: dict[str, Any], store: Store, convert: Convert
) -> None:
    shared = {**tiny_tied, UPPER: tiny_tied[LOWER]}
    source = store({"pytorch_model.bin": shared}, config=config_tied)
    candidate = convert(source).output
    done = verify(source, candidate)
    checks = {one["name"]: one for one in done["checks"]}
    assert (done["status"], checks["architecture"]["status"]) == ("failed", "fail")
    assert f"1 missing: `{UPPER}`" in checks["architecture"]["detail"]


def verify(source: Path, candidate: Path) -> dict[str, Any]:
    """The report of `hfconvert verify`, in a process of its own."""
    command = [sys.executable, "-m", "hfconvert", "verify", str(source), str(candidate), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in ran.stderr, ran.stderr
    return dict(json.loads(ran.stdout))
