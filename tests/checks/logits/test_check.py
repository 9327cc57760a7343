"""`logits` on tiny models of every kind: equal sides pass, wrong weights fail, faults of the harness skip."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hfconvert.checks.isolated import HarnessError
from hfconvert.checks.logits import check as module
from hfconvert.checks.logits.check import Outcomes
from hfconvert.checks.result import Check

State = dict[str, torch.Tensor]
Folders = Callable[..., tuple[Path, Path]]
Compare = Callable[..., Outcomes]

MATRICES = {
    "llama": "model.layers.1.mlp.up_proj.weight",
    "gpt2": "transformer.h.1.mlp.c_fc.weight",
    "bert": "bert.encoder.layer.1.intermediate.dense.weight",
    "bert-classes": "bert.encoder.layer.1.intermediate.dense.weight",
    "bert-embedding": "encoder.layer.1.intermediate.dense.weight",
    "t5": "decoder.block.1.layer.2.DenseReluDense.wi.weight",
    "vit": "vit.encoder.layer.1.intermediate.dense.weight",
    "whisper": "model.decoder.layers.1.fc1.weight",
    "mixtral": "model.layers.1.block_sparse_moe.experts.1.w1.weight",
    "clip": "text_model.encoder.layers.1.mlp.fc1.weight",
}


def logits(outcomes: Outcomes) -> Check:
    return outcomes.checks[0]


def test_equal_sides_are_equal(kind: str, folders: Folders, compare: Compare) -> None:
    check = logits(compare(*folders(kind)))
    assert check.status == "pass", check.detail
    assert check.measured["cosine_min"] == pytest.approx(1, abs=1e-6)
    assert check.measured["residual"] == pytest.approx(0, abs=1e-6)
    assert check.measured["inputs"] == 4
    assert len(check.measured["series"]["by_input"]) == 4


def test_another_matrix_is_found(kind: str, folders: Folders, compare: Compare) -> None:
    def negate(state: State) -> None:
        state[MATRICES[kind]] *= -3

    check = logits(compare(*folders(kind, negate)))
    assert check.status == "fail"
    assert "worst is 'seed " in check.detail


def test_a_cast_passes_and_its_differences_are_measured(folders: Folders, compare: Compare) -> None:
    def cast(state: State) -> None:
        for name in state:
            state[name] = state[name].bfloat16()

    check = logits(compare(*folders("llama", cast)))
    assert check.status == "pass"
    assert 0 < check.measured["residual"] < check.limit["residual"]
    series = check.measured["series"]
    assert len(series["cosine_by_position"]) == 24
    assert len(series["difference_by_layer"]) == 3
    assert series["by_input"] == sorted(series["by_input"], key=lambda one: one["cosine_min"])


def test_a_scale_that_cosine_does_not_see_is_found(folders: Folders, compare: Compare) -> None:
    def double(state: State) -> None:
        state["lm_head.weight"] *= 2

    check = logits(compare(*folders("llama", double)))
    assert check.measured["cosine_min"] > 0.999
    assert check.measured["residual"] == pytest.approx(1, abs=1e-4)
    assert check.status == "fail"


def test_the_limit_is_the_recipe_s(folders: Folders, compare: Compare) -> None:
    def bend(state: State) -> None:
        state["model.layers.0.mlp.up_proj.weight"] *= 1.05

    sides = folders("llama", bend)
    assert logits(compare(*sides, min_cosine=0.9)).status == "pass"
    assert logits(compare(*sides, min_cosine=0.9999999)).status == "fail"


def test_values_that_are_not_finite_fail_and_stay_json(folders: Folders, compare: Compare) -> None:
    def spoil(state: State) -> None:
        state["lm_head.weight"][3] = torch.nan

    check = logits(compare(*folders("llama", spoil)))
    assert check.status == "fail"
    assert check.measured["residual"] is None
    json.dumps(check.as_json(), allow_nan=False)


def test_a_reference_that_is_not_finite_proves_nothing(folders: Folders, compare: Compare) -> None:
    reference, candidate = folders("llama")
    state = torch.load(reference / "pytorch_model.bin", weights_only=True)
    state["lm_head.weight"][3] = torch.nan
    torch.save(state, reference / "pytorch_model.bin")
    check = logits(compare(reference, candidate))
    assert check.status == "skipped"
    assert "the reference itself gives numbers that are not finite" in check.detail


def test_a_model_that_knows_nothing_is_said(folders: Folders, compare: Compare) -> None:
    reference, candidate = folders("llama", vocab_size=400)
    add_tokenizer(reference)
    outcomes = compare(reference, candidate)
    assert logits(outcomes).status == "pass"
    measured = logits(outcomes).measured
    assert measured["loss_by_chance"] == pytest.approx(np.log(400), abs=1e-4)
    assert "a model that knows nothing" in outcomes.findings[0].message


def add_tokenizer(folder: Path) -> None:
    """A tokenizer whose ids are bytes."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({one: at for at, one in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def test_prompts_go_through_the_tokenizer(folders: Folders, compare: Compare) -> None:
    reference, candidate = folders("llama", vocab_size=400)
    add_tokenizer(reference)
    check = logits(compare(reference, candidate, prompts=["one", "and another"]))
    assert check.status == "pass"
    labels = {row["input"] for row in check.measured["series"]["by_input"]}
    assert labels == {"one", "and another"}
    assert len(check.measured["series"]["cosine_by_position"]) == len("and another")


def test_prompts_without_a_tokenizer_are_a_fault_of_the_harness(
    folders: Folders, compare: Compare
) -> None:
    check = logits(compare(*folders("llama"), prompts=["one"]))
    assert check.status == "skipped"
    assert check.detail.startswith("the harness cannot compare: the prompts cannot be tokenised")


def test_a_tokenizer_of_another_model_is_a_fault_of_the_harness(
    folders: Folders, compare: Compare
) -> None:
    reference, candidate = folders("llama")
    add_tokenizer(reference)
    check = logits(compare(reference, candidate, prompts=["zz"]))
    assert check.status == "skipped"
    assert "the vocabulary has 40" in check.detail
    outcomes = compare(reference, candidate)
    assert logits(outcomes).status == "pass"
    assert "random numbers from a seed" in outcomes.findings[-1].message


def test_a_missing_tensor_is_no_fault_of_the_harness(folders: Folders, compare: Compare) -> None:
    def lose(state: State) -> None:
        del state["model.norm.weight"]

    check = logits(compare(*folders("llama", lose)))
    assert check.status == "fail"
    assert "names that the reference has are missing: model.norm.weight" in check.detail


def test_a_reference_that_transformers_cannot_read_is_skipped(
    folders: Folders, compare: Compare
) -> None:
    reference, candidate = folders("llama")
    state = torch.load(reference / "pytorch_model.bin", weights_only=True)
    wrapped = {f"net.{name}": one for name, one in state.items()}
    torch.save(wrapped, reference / "pytorch_model.bin")
    check = logits(compare(reference, candidate))
    assert check.status == "skipped"
    assert "transformers cannot read the reference" in check.detail


def test_a_candidate_of_other_shapes_fails(folders: Folders, compare: Compare) -> None:
    reference, candidate = folders("llama")
    config = json.loads((candidate / "config.json").read_text())
    (candidate / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    assert logits(compare(reference, candidate)).status == "fail"


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "json"])
def test_golden_logits_from_a_file(
    folders: Folders, compare: Compare, tmp_path: Path, suffix: str
) -> None:
    reference, candidate = folders("llama")
    golden = write_golden(candidate, tmp_path / f"golden.{suffix}")
    shutil.rmtree(reference)
    check = logits(compare(golden, candidate))
    assert check.status == "pass", check.detail
    assert check.measured["inputs"] == 2
    write_golden(candidate, golden, scale=1.5)
    assert logits(compare(golden, candidate)).status == "fail"


def write_golden(folder: Path, path: Path, scale: float = 1.0) -> Path:
    """What the model of a folder gives for two rows of ids, written down."""
    from safetensors.numpy import save_file
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    ids = torch.arange(12).reshape(2, 6)
    with torch.inference_mode():
        values = (model(ids).logits * scale).numpy()
    arrays = {"input_ids": ids.numpy(), "logits": values}
    if path.suffix == ".safetensors":
        save_file(arrays, path)
    elif path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        path.write_text(json.dumps({name: one.tolist() for name, one in arrays.items()}))
    return path


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no JSON", "cannot be read"),
        (b"{}", "has no input_ids and no logits"),
        (b'{"input_ids": [[1, 2]], "logits": [[1.0]]}', "they have to be"),
        (b'{"input_ids": [[1, 400]], "logits": [[[1.0], [2.0]]]}', "cannot be run"),
    ],
)
def test_a_file_that_holds_no_golden_logits_is_a_fault_of_the_harness(
    folders: Folders, compare: Compare, tmp_path: Path, content: bytes, said: str
) -> None:
    _, candidate = folders("llama")
    path = tmp_path / "golden.json"
    path.write_bytes(content)
    check = logits(compare(path, candidate))
    assert check.status == "skipped"
    assert said in check.detail


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert", "t5", "vit", "whisper"])
def test_a_layer_at_a_time_gives_the_same(kind: str, folders: Folders, compare: Compare) -> None:
    def bend(state: State) -> None:
        for name in state:
            state[name] = (state[name] * 1.001).bfloat16()

    sides = folders(kind, bend)
    whole = logits(compare(*sides))
    small = logits(compare(*sides, memory=layer_bytes(sides[1])))
    assert "a layer at a time" in small.detail
    assert "a layer at a time" not in whole.detail
    assert small.status == whole.status
    for figure in ("cosine_min", "residual", "max_difference"):
        assert small.measured[figure] == pytest.approx(whole.measured[figure], rel=1e-2, abs=1e-6)


def layer_bytes(folder: Path) -> int:
    """Less than the model takes, enough for a layer."""
    from safetensors.torch import load_file

    elements = sum(one.numel() for one in load_file(folder / "model.safetensors").values())
    return int(elements * 4 * 1.6) - 1


def test_what_fits_not_even_by_layer_is_skipped(folders: Folders, compare: Compare) -> None:
    check = logits(compare(*folders("llama"), memory=1000))
    assert check.status == "skipped"
    assert "a layer at a time is too much as well" in check.detail


def test_experts_that_have_to_be_fused_are_not_run_by_layer(
    folders: Folders, compare: Compare
) -> None:
    sides = folders("mixtral")
    check = logits(compare(*sides, memory=layer_bytes(sides[1])))
    assert check.status == "skipped"
    assert "its layers are stored in another form" in check.detail


def test_a_process_that_dies_is_a_fault_of_the_harness(
    folders: Folders, compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dead(*_arguments: object) -> dict[str, Any]:
        raise HarnessError("ended by signal 9")

    monkeypatch.setattr(module, "ask", dead)
    check = logits(compare(*folders("llama")))
    assert check.status == "skipped"
    assert check.detail == "the harness failed: ended by signal 9"


def test_the_seed_of_the_process_stays_as_it_was(folders: Folders, compare: Compare) -> None:
    sides = folders("llama")
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    compare(*sides)
    assert torch.equal(torch.rand(1), expected)
