"""Tied models of transformers, saved as pickles: which name is kept, and what a strict reload restores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from typer.testing import CliRunner

from hfconvert.cli import app

SIZES = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 40,
    "max_position_embeddings": 32,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SEQ2SEQ = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "vocab_size": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
AUDIO = {"max_source_positions": 16, "max_target_positions": 16, "num_mel_bins": 8}
SMALL_T5 = {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 40}
SMALL_GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 4, "vocab_size": 40, "n_positions": 32}
SMALL_GPT2 |= {"bos_token_id": 1, "eos_token_id": 2}
SMALL_DISTIL = {"dim": 16, "hidden_dim": 32, "n_layers": 2, "n_heads": 4, "vocab_size": 40}
OPT = {**SIZES, "ffn_dim": 32, "word_embed_proj_dim": 16}

# Class, configuration, and the names that are left out with the name that each comes back from.
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "bert": (
        "BertForMaskedLM",
        SIZES,
        {
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
    ),
    "roberta": (
        "RobertaForMaskedLM",
        SIZES,
        {
            "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias",
        },
    ),
    "albert": (
        "AlbertForMaskedLM",
        {**SIZES, "embedding_size": 8},
        {
            "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
            "predictions.decoder.bias": "predictions.bias",
        },
    ),
    "electra": (
        "ElectraForMaskedLM",
        {**SIZES, "embedding_size": 8},
        {"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"},
    ),
    "distilbert": (
        "DistilBertForMaskedLM",
        SMALL_DISTIL,
        {"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
    ),
    "gpt2": ("GPT2LMHeadModel", SMALL_GPT2, {"lm_head.weight": "transformer.wte.weight"}),
    "llama": (
        "LlamaForCausalLM",
        {**SIZES, "tie_word_embeddings": True},
        {"lm_head.weight": "model.embed_tokens.weight"},
    ),
    "llama, untied": ("LlamaForCausalLM", {**SIZES, "tie_word_embeddings": False}, {}),
    "gemma2": (
        "Gemma2ForCausalLM",
        {**SIZES, "num_key_value_heads": 2, "head_dim": 4},
        {"lm_head.weight": "model.embed_tokens.weight"},
    ),
    "opt": ("OPTForCausalLM", OPT, {"lm_head.weight": "model.decoder.embed_tokens.weight"}),
    "t5": (
        "T5ForConditionalGeneration",
        SMALL_T5,
        dict.fromkeys(
            ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"],
            "shared.weight",
        ),
    ),
    "bart": (
        "BartForConditionalGeneration",
        {**SEQ2SEQ, "max_position_embeddings": 32},
        dict.fromkeys(
            [
                "model.encoder.embed_tokens.weight",
                "model.decoder.embed_tokens.weight",
                "lm_head.weight",
            ],
            "model.shared.weight",
        ),
    ),
    "whisper": (
        "WhisperForConditionalGeneration",
        {**SEQ2SEQ, **AUDIO},
        {"proj_out.weight": "model.decoder.embed_tokens.weight"},
    ),
}
Convert = Callable[..., dict[str, Any]]
QUICK = {"architecture": "off", "logits": "off"}  # here the model is loaded by the tests themselves


@pytest.fixture
def convert(tmp_path: Path) -> Convert:
    def run(source: Path, **recipe: Any) -> dict[str, Any]:
        path = tmp_path / "recipe.yaml"
        document = {"version": 1, "source": {"path": str(source)}, "validate": QUICK, **recipe}
        path.write_text(json.dumps(document))
        arguments = ["run", str(path), "--output", str(tmp_path / "out"), "--json", "-q"]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    return run


def build(name: str) -> Any:
    """The model with every parameter random, norms and biases too: equal ones would hide a mix-up."""
    kind, options, _ = MODELS[name]
    cls = getattr(transformers, kind)
    torch.manual_seed(5)
    model = cls(cls.config_class(**options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return model


def saved(model: Any, folder: Path) -> dict[str, torch.Tensor]:
    folder.mkdir()
    state = dict(model.state_dict())
    torch.save(state, folder / "pytorch_model.bin")
    model.config.save_pretrained(folder)
    return state


def differing(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> list[str]:
    assert one.keys() == other.keys()
    return [name for name in one if not torch.equal(one[name], other[name])]


@pytest.mark.parametrize("name", MODELS)
def test_what_is_left_out_comes_back(name: str, tmp_path: Path, convert: Convert) -> None:
    model = build(name)
    state = saved(model, tmp_path / "source")
    report = convert(tmp_path / "source")
    assert {tie["dropped"]: tie["kept"] for tie in report["ties"]} == MODELS[name][2]

    loaded, info = type(model).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info.values()), info
    assert differing(dict(loaded.state_dict()), state) == []


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name][2]])
def test_the_name_that_is_kept_is_the_one_that_transformers_ties_to(name: str) -> None:
    listed = build(name).all_tied_weights_keys
    kept = MODELS[name][2]
    assert {dropped: kept[dropped] for dropped in listed} == listed


@pytest.mark.parametrize("name", ["bert", "whisper", "gpt2"])
def test_a_configuration_that_says_untied_keeps_both(
    name: str, tmp_path: Path, convert: Convert
) -> None:
    """One storage, but the class would not tie: what is left out would come back as random numbers."""
    model = build(name)
    state = saved(model, tmp_path / "source")
    path = tmp_path / "source" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tie_word_embeddings": False}))
    report = convert(tmp_path / "source")
    assert report["ties"] == []
    loaded, info = type(model).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info.values()), info
    assert differing(dict(loaded.state_dict()), state) == []
