"""Adapters for layers that the files hold joined with others: query, key and value in one tensor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hfconvert.cli import main
from hfconvert.errors import UserError
from hfconvert.lora.pieces import pieces_of

State = dict[str, torch.Tensor]
Merge = Callable[..., State]
SHAPES = {"a": (4, 2), "b": (6, 2), "norm": (4,)}
JOINED = "encoder.layers.{}.attn.Wqkv.weight"


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (["window", 0, 1, 3, ["source", "a"]], [("a", 1, [0, 1])]),
        (["concat", 0, [["source", "b"], ["source", "a"]]], [("b", 0, range(6)), ("a", 0, range(6, 10))]),
        (["take", 0, [3, 1, 0, 2], ["source", "a"]], [("a", 0, [2, 1, 3, 0])]),
        (["take", 0, [1, 0], ["window", 0, 2, 4, ["source", "b"]]], [("b", 2, [1, 0])]),
        (["take", 0, [0, 2], ["source", "a"]], []),
        (["window", 1, 0, 1, ["source", "a"]], []),
        (["concat", 0, [["source", "a"], ["source", "norm"]]], []),
        (["stack", 0, [["source", "a"], ["source", "a"]]], []),
    ],
)  # fmt: skip
def test_rows_are_traced_to_the_tensors_that_hold_them(recipe: Any, expected: Any) -> None:
    found = [(piece.name, piece.first, list(piece.rows)) for piece in pieces_of(recipe, SHAPES)]
    assert found == [(name, first, list(rows)) for name, first, rows in expected]
    for piece in pieces_of(recipe, SHAPES):
        assert piece.rows.dtype == np.int64


@pytest.fixture
def bert(tmp_path: Path) -> Any:
    """A tiny NomicBert in `base`: three projections in memory, one `Wqkv` in its files."""
    from transformers import NomicBertConfig, NomicBertForMaskedLM

    config = NomicBertConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    torch.manual_seed(0)
    model: Any = NomicBertForMaskedLM(config)
    with torch.no_grad():
        model.nomic_bert.layers[0].self_attn.k_proj.weight.fill_(-0.0)
    model.save_pretrained(tmp_path / "base")
    return model


def adapted(model: Any, folder: Path, **options: Any) -> State:
    """Save a random LoRA; what PEFT makes of the model with it, under the names of its files."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=4, init_lora_weights=False, **options)
    with_adapter: Any = get_peft_model(model, config)
    with_adapter.save_pretrained(folder / "adapter")
    with_adapter.merge_and_unload().save_pretrained(folder / "merged")
    return load_file(folder / "merged" / "model.safetensors")


@pytest.mark.filterwarnings("ignore")
def test_only_the_rows_of_the_layer_change(bert: Any, merge: Merge, tmp_path: Path) -> None:
    theirs = adapted(bert, tmp_path, target_modules=["q_proj", "v_proj"])
    ours = merge(tmp_path / "base", tmp_path / "adapter")
    (name,) = (one for one in ours if one.endswith(JOINED.format(0)))
    assert ours[name].shape == (96, 32)
    assert ours.keys() == theirs.keys()
    assert [one for one in ours if not torch.equal(ours[one], theirs[one])] == []
    assert bool(torch.signbit(ours[name][32:64]).all())  # bits of other layers, -0.0 included


@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_a_run_know_of_rows(
    bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapted(bert, tmp_path, target_modules=["q_proj", "k_proj", "v_proj"])
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"version: 1\nsource: {{path: {tmp_path}/base}}\n"
        f"lora: {{adapters: [{{adapter: {tmp_path}/adapter}}]}}\n"
    )
    command = ["hfconvert", "run", str(recipe), "--output", str(tmp_path / "out"), "--json"]
    monkeypatch.setattr("sys.argv", command)
    assert main() == 0


@pytest.mark.filterwarnings("ignore")
def test_a_layer_that_is_lost_is_an_error(bert: Any, merge: Merge, tmp_path: Path) -> None:
    adapted(bert, tmp_path, target_modules=["q_proj", "v_proj"])
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    tensors = {name: one for name, one in load_file(file).items() if "1.self_attn.v" not in name}
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(UserError) as error:
        merge(tmp_path / "base", tmp_path / "adapter")
    assert "1 modules are targets of the configuration and have no tensors" in str(error.value)


@pytest.mark.filterwarnings("ignore")
def test_other_kinds_than_plain_lora_are_refused(bert: Any, merge: Merge, tmp_path: Path) -> None:
    adapted(bert, tmp_path, target_modules=["q_proj"], use_dora=True)
    with pytest.raises(UserError) as error:
        merge(tmp_path / "base", tmp_path / "adapter")
    assert "only plain LoRA is merged into rows of a tensor" in str(error.value)
    assert "hf-v4-v5" in str(error.value)
