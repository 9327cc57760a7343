"""Merges that are wrong, each in one way: the `merge` check catches every one of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hfconvert.checks.held import Held
from hfconvert.checks.merge import hold_file, merge_check
from hfconvert.lora import nodes, product, updates
from hfconvert.lora.scales import scale_of
from hfconvert.planning.plan import Plan

Planned = Callable[..., Plan]
Written = Callable[[Plan], Any]

R, ALPHA, WIDTH = 8, 16, 64


@pytest.fixture
def small(tmp_path: Path) -> tuple[Path, Path]:
    """A base in bf16, and an adapter whose update is far below a unit in the last place for most weights."""
    import ml_dtypes

    generator = np.random.default_rng(3)
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    base.mkdir()
    adapter.mkdir()
    names = [f"model.layers.{n}.self_attn.{p}_proj" for n in range(3) for p in "qv"]
    state = {
        f"{name}.weight": (generator.standard_normal((WIDTH, WIDTH)) * 0.02).astype(
            ml_dtypes.bfloat16
        )
        for name in names
    }
    save_file(state, base / "model.safetensors")
    factors = {}
    for name in names:
        a = generator.uniform(-0.1, 0.1, (R, WIDTH)).astype(np.float32)
        b = (generator.standard_normal((WIDTH, R)) * 0.003).astype(np.float32)
        factors[f"base_model.model.{name}.lora_A.weight"] = a
        factors[f"base_model.model.{name}.lora_B.weight"] = b
    save_file(factors, adapter / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "r": R,
        "lora_alpha": ALPHA,
        "target_modules": ["q_proj", "v_proj"],
    }
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    return base, adapter


@pytest.fixture
def checked(tmp_path: Path) -> Callable[[Plan], Any]:
    """Write the shards of a plan as the executor does, and hold them against the exact sums."""
    from contextlib import closing

    from hfconvert.making.execute import execute
    from hfconvert.making.work import Journal

    def check(plan: Plan) -> Any:
        folder = tmp_path / "written"
        folder.mkdir(exist_ok=True)
        journal = Journal(folder / "journal")
        held = Held()
        with closing(execute(plan.shards, folder, journal, plan.tally, lambda n: n)) as shards:
            for made in shards:
                held += hold_file(made.path, made.shard.file, plan.merges)
        return merge_check(held, plan.merges)

    return check


def test_the_right_merge_passes(
    small: tuple[Path, Path], planned: Planned, checked: Callable[[Plan], Any]
) -> None:
    check = checked(planned(*small))
    assert check.status == "pass", check.detail
    assert check.measured["tensors"] == 6
    assert check.measured["modules"] == {"q_proj": 3, "v_proj": 3}
    assert check.measured["targeted"] == {"q_proj": 3, "v_proj": 3}


@pytest.mark.parametrize("factor", [0.0, 0.5, 2.0, math.sqrt(R), -1.0, 1.05])
def test_a_wrong_scale_is_caught(
    factor: float,
    small: tuple[Path, Path],
    planned: Planned,
    checked: Callable[[Plan], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = scale_of
    monkeypatch.setattr(nodes, "scale_of", lambda term: right(term) * factor)
    check = checked(planned(*small))
    assert check.status == "fail"
    assert check.measured["wrong"] == 6


def test_a_transposed_update_is_caught(
    small: tuple[Path, Path],
    planned: Planned,
    checked: Callable[[Plan], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def turned(left: Any, right: Any) -> Any:
        size = max(left.shape[0], right.shape[1])
        whole = np.zeros((size, size), np.float32)
        part = product.multiply(left, right)
        whole[: part.shape[0], : part.shape[1]] = part
        return whole.T[: part.shape[0], : part.shape[1]].copy()

    monkeypatch.setattr(updates, "multiply", turned)
    assert checked(planned(*small)).status == "fail"


@pytest.mark.parametrize("skipped", ["model.layers.2.self_attn.v_proj.weight"])
def test_a_skipped_layer_is_caught(
    skipped: str,
    small: tuple[Path, Path],
    planned: Planned,
    checked: Callable[[Plan], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = nodes.update_of

    def nothing(term: Any) -> Any:
        update: Any = right(term)
        if term.module == skipped.removesuffix(".weight"):
            return updates.LowRank(update.left, update.right, 0.0)
        return update

    monkeypatch.setattr(nodes, "update_of", nothing)
    check = checked(planned(*small))
    assert check.status == "fail"
    assert check.detail.startswith(skipped)


def test_a_merge_that_did_nothing_is_caught_from_outside(
    small: tuple[Path, Path], planned: Planned
) -> None:
    base, adapter = small
    plan = planned(base, adapter)
    held = hold_file(base / "model.safetensors", "model.safetensors", plan.merges)
    assert len(held.wrong) == 6
    assert merge_check(held, plan.merges).status == "fail"


def test_a_doubled_update_is_caught_from_outside(
    small: tuple[Path, Path], planned: Planned, merge: Callable[..., Any], tmp_path: Path
) -> None:
    import ml_dtypes
    import torch

    base, adapter = small
    plan = planned(base, adapter)
    once = merge(base, adapter, {"adapter": str(adapter), "weight": 1.0})
    path = tmp_path / "doubled.safetensors"
    save_file(
        {
            name: tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
            for name, tensor in once.items()
        },
        path,
    )
    held = hold_file(path, "doubled.safetensors", plan.merges)
    assert len(held.wrong) == 6


def test_half_the_names_are_an_error_before_anything_is_written(
    small: tuple[Path, Path], planned: Planned
) -> None:
    from hfconvert.errors import UserError

    base, adapter = small
    path = adapter / "adapter_model.safetensors"
    state = load_file(path)
    save_file({name.replace("layers.1.", "blocks.1."): one for name, one in state.items()}, path)
    with pytest.raises(UserError) as error:
        planned(base, adapter)
    text = str(error.value)
    assert error.value.exit == 3
    assert "4 tensors of the adapter match nothing in the base" in text
    assert "2 modules are targets of the configuration and have no tensors" in text


@pytest.mark.filterwarnings("ignore")
def test_experts_in_the_other_order_are_caught(
    zoo: Path, planned: Planned, checked: Callable[[Plan], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """B packs experts fastest; read as A is packed, the slowest, wrong experts are paired."""

    def slowest(self: Any, a: Any, b: Any, expert: int) -> Any:
        rank = len(a) // self.experts
        left = b[:, expert * rank : (expert + 1) * rank]
        return left, a[expert * rank : (expert + 1) * rank]

    source, adapter = zoo / "base/mixtral", zoo / "lora_mixtral_target_params/adapter"
    assert checked(planned(source, adapter)).status == "pass"
    monkeypatch.setattr(updates.Experts, "_factors", slowest)
    check = checked(planned(source, adapter))
    assert check.status == "fail"
    assert "experts" in check.detail


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", ["lora_dora", "loha", "lokr", "ia3", "oft", "vera", "adalora"])
def test_methods_of_peft_that_did_nothing_are_caught(
    case: str, zoo: Path, planned: Planned
) -> None:
    plan = planned(zoo / "base/llama", zoo / case / "adapter")
    held = hold_file(zoo / "base/llama/model.safetensors", "model.safetensors", plan.merges)
    assert len(held.wrong) == len(plan.merges.sums)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("method", ["plain", "dora"])
def test_values_that_an_adapter_makes_endless_are_caught_and_counted(
    method: str,
    value: float,
    small: tuple[Path, Path],
    planned: Planned,
    checked: Callable[[Plan], Any],
) -> None:
    base, adapter = small
    file, module = adapter / "adapter_model.safetensors", "model.layers.1.self_attn.v_proj"
    state = load_file(file)
    if method == "dora":
        config = json.loads((adapter / "adapter_config.json").read_text())
        (adapter / "adapter_config.json").write_text(json.dumps({**config, "use_dora": True}))
        for name in [name for name in state if name.endswith("lora_A.weight")]:
            vector = name.replace("lora_A.weight", "lora_magnitude_vector.weight")
            state[vector] = np.ones(WIDTH, np.float32)
        state[f"base_model.model.{module}.lora_magnitude_vector.weight"][5] = value
    else:
        state[f"base_model.model.{module}.lora_B.weight"][5] = value
    save_file(state, file)
    plan = planned(base, adapter)
    check = checked(plan)
    assert check.status == "fail"
    assert check.measured["wrong"] == 1
    assert f"{module}.weight: the update makes {WIDTH} values infinite or NaN" in check.detail


def test_adapters_that_cancel_each_other_are_told(
    small: tuple[Path, Path], planned: Planned, checked: Callable[[Plan], Any]
) -> None:
    base, adapter = small
    check = checked(planned(base, adapter, {"adapter": str(adapter), "weight": -1.0}))
    assert check.status == "pass"
    assert "what is left of the update of q_proj, v_proj is less than rounding" in check.detail
    assert check.measured["lost_by_rounding"] == {"q_proj": 1.0, "v_proj": 1.0}
