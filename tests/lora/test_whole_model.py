"""Engine `model`: the same tensors as module by module, by PEFT's merge of the whole model."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hfconvert.errors import UserError
from hfconvert.planning.plan import Plan

Merge = Callable[..., dict[str, torch.Tensor]]
CASES = [("llama", "lora_all_linear"), ("llama", "loha"), ("mixtral", "lora_mixtral_target_params")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("base", "case"), CASES)
@pytest.mark.parametrize("mode", ["float32", "native"])
def test_both_engines_give_the_same(
    base: str, case: str, mode: str, zoo: Path, merge: Merge
) -> None:
    source, adapter = zoo / "base" / base, zoo / case / "adapter"
    module = merge(source, adapter, compute_dtype=mode)
    model = merge(source, adapter, compute_dtype=mode, engine="model")
    assert module.keys() == model.keys()
    assert [name for name in module if not torch.equal(module[name], model[name])] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ["module", "model"])
@pytest.mark.parametrize("case", ["lora_plain", "lora_dora"])
def test_values_that_become_endless_are_counted(
    engine: str, case: str, zoo: Path, planned: Callable[..., Plan], tmp_path: Path, tensors: Any
) -> None:
    adapter = tmp_path / "adapter"
    shutil.copytree(zoo / case / "adapter", adapter)
    file, module = adapter / "adapter_model.safetensors", "model.layers.0.self_attn.q_proj"
    state = load_file(file)
    state[f"base_model.model.{module}.lora_B.weight"][3] = torch.nan
    save_file(state, file)
    plan = planned(zoo / "base/llama", adapter, engine=engine)
    merged = tensors(plan)
    lost = plan.tally.take(merged)
    assert {name: one.overflow for name, one in lost.items() if one.overflow} == {
        f"{module}.weight": int(merged[f"{module}.weight"].isnan().sum())
    }


@pytest.mark.filterwarnings("ignore")
def test_the_libraries_draw_no_bars(
    zoo: Path, merge: Merge, capfd: pytest.CaptureFixture[str]
) -> None:
    merge(zoo / "base/llama", zoo / "lora_plain/adapter", engine="model")
    assert capfd.readouterr().err == ""


def test_the_engine_is_said(zoo: Path, planned: Callable[..., Plan]) -> None:
    def said(plan: Plan) -> str:
        return " ".join(one.message for one in plan.findings if one.check == "lora")

    base = zoo / "base/llama"
    assert "all updates are plain" in said(planned(base, zoo / "lora_plain/adapter"))
    assert "4 tensors by PEFT, module by module" in said(planned(base, zoo / "oft/adapter"))
    whole = planned(base, zoo / "lora_plain/adapter", engine="model")
    assert "PEFT merges the whole model" in said(whole)


@pytest.mark.parametrize(
    ("base", "case", "options", "reason"),
    [
        ("llama_tied", "lora_tied_target_embed", {}, "PEFT would change both ends"),
        ("llama", "lora_plain", {"weight": 0.5}, "an adapter has a weight"),
        ("llama/model.safetensors", "lora_plain", {}, "the source is one file"),
    ],
)
def test_what_it_cannot_do_is_said_before_anything_is_loaded(
    base: str,
    case: str,
    options: dict[str, Any],
    reason: str,
    zoo: Path,
    planned: Callable[..., Plan],
) -> None:
    adapter = {"adapter": str(zoo / case / "adapter"), **options}
    with pytest.raises(UserError) as error:
        planned(zoo / "base" / base, adapter, engine="model")
    assert error.value.exit == 2
    assert reason in str(error.value)
