"""`hfconvert verify`: tensors that are right, and tensors that are wrong in every way we could think of."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.verifying.verified import CONFIG, Change, State, Verify


def test_a_right_conversion_is_verified(verify: Verify, source: Path, candidate: Path) -> None:
    done = verify(source, candidate)

    assert done.code == 0
    assert done.report["status"] == "verified"
    assert {one["name"]: one["status"] for one in done.report["checks"]} == {
        "names": "pass",
        "tensors": "pass",
        "files": "pass",
        "dtypes": "pass",
        "architecture": "skipped",
        "logits": "skipped",
    }
    assert done.report["source"]["path"] == str(source)
    assert done.report["candidate"]["path"] == str(candidate)
    assert done.report["pickle"][0]["file"] == "pytorch_model.bin"
    assert "lm_head.weight: is model.embed_tokens.weight in the source too" in done.notes()


def test_every_value_is_compared(verify: Verify, source: Path, candidate: Path) -> None:
    checks = {one["name"]: one for one in verify(source, candidate).report["checks"]}
    values = 12 * 8 + 3 * (64 + 8 + 128 + 8)
    assert checks["tensors"]["measured"] == {"tensors": 13, "values": values, "different": 0}


def test_a_flipped_weight_is_named_with_its_place(
    verify: Verify, source: Path, candidate: Path, change: Change, state: State
) -> None:
    name = "model.layers.1.mlp.up_proj.weight"

    def flip(tensors: State) -> None:
        tensors[name][3, 5] *= -1

    change(flip)
    done = verify(source, candidate)
    before = float(state[name][3, 5])

    assert done.code == 1
    assert done.report["status"] == "failed"
    assert done.failed() == {"tensors"}
    assert f"{name}: 1 of 128 values differ, the first at [3, 5]: {before:.9g}" in done.errors()
    assert f"{-before:.9g} here; at most by {abs(2 * before):.3g}" in done.errors()


def test_the_sign_of_a_zero_counts(
    verify: Verify, source: Path, candidate: Path, change: Change
) -> None:
    def zero(tensors: State) -> None:
        tensors["model.layers.0.self_attn.q_proj.bias"][0] = -0.0

    full = torch.load(source / "pytorch_model.bin", weights_only=True)
    full["model.layers.0.self_attn.q_proj.bias"][0] = 0.0
    torch.save(full, source / "pytorch_model.bin")
    change(zero)

    assert "0 in the source, -0 here" in verify(source, candidate).errors()


def test_swapped_layers_are_named(
    verify: Verify, source: Path, candidate: Path, change: Change
) -> None:
    def swap(tensors: State) -> State:
        numbers = {"0": "2", "2": "0"}
        swapped = {}
        for name, tensor in tensors.items():
            parts = name.split(".")
            if len(parts) > 3:
                parts[2] = numbers.get(parts[2], parts[2])
            swapped[".".join(parts)] = tensor
        return swapped

    change(swap)
    done = verify(source, candidate)

    assert done.failed() == {"tensors"}
    assert "these are the values of model.layers.2.mlp.up_proj.weight" in done.errors()
    assert "these are the values of model.layers.0.mlp.up_proj.weight" in done.errors()
    assert "model.layers.1" not in done.errors()
    assert "8 of the tensors that differ hold values of the source" in done.notes()


def test_a_transposed_square_is_named(
    verify: Verify, source: Path, candidate: Path, change: Change
) -> None:
    name = "model.layers.2.self_attn.q_proj.weight"

    def transpose(tensors: State) -> None:
        tensors[name] = tensors[name].T

    change(transpose)
    done = verify(source, candidate)
    assert f"{name}: 56 of 64 values differ" in done.errors()
    assert "the source's values transposed" in done.errors()


def test_rearranged_rows_are_named(
    verify: Verify, source: Path, candidate: Path, change: Change
) -> None:
    name = "model.layers.2.mlp.up_proj.weight"

    def permute(tensors: State) -> None:
        tensors[name] = tensors[name].reshape(2, 8, 8).transpose(0, 1).reshape(16, 8)

    change(permute)
    assert "the source's rows in another order" in verify(source, candidate).errors()


def test_missing_tensors_are_folded(
    verify: Verify, source: Path, candidate: Path, change: Change
) -> None:
    change(
        lambda tensors: {name: one for name, one in tensors.items() if not name.endswith("bias")},
    )
    done = verify(source, candidate)
    assert done.failed() == {"names"}
    assert "3 tensors are missing: `model.layers.{0..2}.self_attn.q_proj.bias`" in done.errors()


def test_an_added_tensor_is_named(
    verify: Verify, source: Path, candidate: Path, change: Change
) -> None:
    change(lambda tensors: {**tensors, "extra": torch.ones(2)})
    done = verify(source, candidate)
    assert done.failed() == {"names"}
    assert "1 tensors were added that the source lacks: `extra`" in done.errors()


def test_another_shape_is_named(
    verify: Verify, source: Path, candidate: Path, change: Change
) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    change(lambda tensors: {**tensors, name: tensors[name].reshape(8, 16)})
    done = verify(source, candidate)
    assert done.failed() == {"names"}
    assert f"{name} is [8, 16], in the source [16, 8]" in done.errors()


def test_a_tied_pair_needs_one_of_its_names(
    verify: Verify, source: Path, candidate: Path, change: Change
) -> None:
    def other_name(tensors: State) -> State:
        return {name.replace("model.embed_tokens", "lm_head"): one for name, one in tensors.items()}

    change(other_name)
    assert verify(source, candidate).code == 0
    change(lambda tensors: {n: t for n, t in tensors.items() if n != "lm_head.weight"})
    done = verify(source, candidate)
    assert "2 tensors are missing: `model.embed_tokens.weight`, `lm_head.weight`" in done.errors()


def test_a_tie_may_be_written_twice(
    verify: Verify, source: Path, candidate: Path, change: Change
) -> None:
    def both(tensors: State) -> State:
        return {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"].clone()}

    change(both)
    assert verify(source, candidate).code == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_cast_that_the_configuration_says_is_held_to_its_rounding(
    verify: Verify, source: Path, candidate: Path, change: Change, dtype: torch.dtype
) -> None:
    change(lambda tensors: {name: one.to(dtype) for name, one in tensors.items()})
    text = json.dumps({**CONFIG, "dtype": str(dtype).removeprefix("torch.")})
    (candidate / "config.json").write_text(text)
    done = verify(source, candidate)

    assert done.code == 0
    assert "13 tensors were cast from F32" in done.notes()


def test_one_value_rounded_the_other_way_is_found(
    verify: Verify, source: Path, candidate: Path, change: Change
) -> None:
    name = "model.layers.1.mlp.up_proj.weight"

    def truncated(tensors: State) -> State:
        cast = {name: one.to(torch.bfloat16) for name, one in tensors.items()}
        cast[name].view(torch.int16)[0, 0] ^= 1
        return cast

    change(truncated)
    (candidate / "config.json").write_text(json.dumps({**CONFIG, "dtype": "bfloat16"}))
    done = verify(source, candidate)
    assert done.failed() == {"tensors"}
    assert f"{name}: 1 of 128 values differ" in done.errors()


def test_bf16_where_fp32_was_meant(
    verify: Verify, source: Path, candidate: Path, change: Change
) -> None:
    change(lambda tensors: {name: one.bfloat16() for name, one in tensors.items()})
    done = verify(source, candidate)
    assert done.failed() == {"dtypes"}
    assert "config.json says float32, but tensors were cast to bfloat16" in done.errors()


def test_a_single_tensor_of_another_dtype(
    verify: Verify, source: Path, candidate: Path, change: Change
) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    (source / "config.json").write_text(json.dumps({**CONFIG, "dtype": "bfloat16"}))
    shutil.copy(source / "config.json", candidate)
    change(lambda tensors: {**tensors, name: tensors[name].bfloat16()})
    done = verify(source, candidate)
    assert done.failed() == {"dtypes"}
    assert f"1 of the body tensors of F32 are BF16, the others F32: `{name}`" in done.errors()


def test_wrappers_and_one_prefix_are_found(
    verify: Verify, source: Path, candidate: Path, change: Change, state: State
) -> None:
    torch.save(
        {f"module._orig_mod.{name}": one for name, one in state.items()},
        source / "pytorch_model.bin",
    )
    change(
        lambda tensors: {name.removeprefix("model."): one for name, one in tensors.items()},
    )
    done = verify(source, candidate)
    assert done.code == 0
    assert "13 names stand in the candidate without the prefix `model.`" in done.notes()
    assert "13 names of the source carry a wrapper" in done.notes()


def test_one_renamed_tensor_is_no_prefix(
    verify: Verify, source: Path, candidate: Path, change: Change
) -> None:
    def rename(tensors: State) -> State:
        return {
            name.replace("model.layers.0.mlp", "layers.0.mlp"): one for name, one in tensors.items()
        }

    change(rename)
    done = verify(source, candidate)
    assert done.failed() == {"names"}
    assert "1 tensors are missing: `model.layers.0.mlp.up_proj.weight`" in done.errors()


def test_a_recipe_explains_what_lies_between(
    verify: Verify, tmp_path: Path, source: Path, candidate: Path, change: Change
) -> None:
    change(
        lambda tensors: {
            name.replace("self_attn", "attention"): one.to(torch.bfloat16)
            for name, one in tensors.items()
        },
    )
    (candidate / "config.json").write_text(json.dumps({**CONFIG, "dtype": "bfloat16"}))
    alone = verify(source, candidate)
    assert alone.failed() == {"names"}
    assert "without a recipe, casts, wrappers and one prefix are all" in alone.notes()
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "version: 1\nsource: {path: ./elsewhere}\ndtype: bfloat16\nkey_map:\n"
        "  - rename: {'model.layers.{i}.self_attn.*': 'model.layers.{i}.attention.*'}\n"
    )
    assert verify(source, candidate, "--recipe", recipe).code == 0
    wrong = verify(source, candidate, "--recipe", recipe, "--set", "dtype=keep")
    assert wrong.failed() == {"dtypes"}
    assert "the recipe says F32, and 13 tensors are BF16: `model.embed_tokens" in wrong.errors()
    assert "without a recipe" not in wrong.notes()


@pytest.mark.parametrize("target", [torch.float16, torch.float8_e4m3fn])
def test_a_cast_that_overflowed_is_a_fault_though_every_value_is_what_it_is_rounded_to(
    verify: Verify, tmp_path: Path, target: torch.dtype
) -> None:
    values = torch.tensor([1.0, -3e38, 70_000.0, torch.inf, torch.nan, 0.0])
    for name, state in (("source", values), ("candidate", values.to(target))):
        folder = tmp_path / name
        folder.mkdir()
        if target is torch.float8_e4m3fn and name == "candidate":
            state.view(torch.uint8)[1:4] = torch.tensor([0xFF, 0x7F, 0x7F], dtype=torch.uint8)
        save_file({"w": state}, folder / "model.safetensors")
    done = verify(tmp_path / "source", tmp_path / "candidate")
    assert done.code == 1
    assert done.failed() == {"tensors"}
    assert "w: 2 of 6 values overflow" in done.errors()
