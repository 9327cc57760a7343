"""Several adapters: in their order, weighted, summed in float32, rounded once; mixed methods too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hfconvert.checks.merge import hold_file, merge_check
from hfconvert.errors import UserError
from hfconvert.planning.plan import Plan

State = dict[str, torch.Tensor]
Merge = Callable[..., State]
Q = "model.layers.0.self_attn.q_proj"


def delta(adapter: Path, module: str, scale: float) -> torch.Tensor:
    state = load_file(adapter / "adapter_model.safetensors")
    a, b = (state[f"base_model.model.{module}.lora_{one}.weight"] for one in "AB")
    return (b @ a) * scale


def test_the_sum_is_rounded_once(zoo: Path, merge: Merge) -> None:
    one, two = (zoo / "lora_multi/adapter" / name for name in ("one", "two"))
    base = load_file(zoo / "base/llama/model.safetensors")[f"{Q}.weight"].float()
    ours = merge(
        zoo / "base/llama",
        {"adapter": str(one), "weight": 0.5},
        {"adapter": str(two), "weight": -1.25},
    )
    exact = base + delta(one, Q, 8 / 4 * 0.5) + delta(two, Q, 6 / 2 * -1.25)
    assert torch.equal(ours[f"{Q}.weight"], exact.bfloat16())


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_weight_of_one_is_the_adapter_and_of_nought_is_nothing(
    weight: float, zoo: Path, merge: Merge
) -> None:
    adapter = zoo / "lora_rslora/adapter"
    ours = merge(zoo / "base/llama", {"adapter": str(adapter), "weight": weight})
    base = load_file(zoo / "base/llama/model.safetensors")
    expected = merge(zoo / "base/llama", adapter) if weight else base
    assert all(torch.equal(ours[name], expected[name]) for name in expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("order", [("lora_dora", "lora_plain"), ("lora_plain", "lora_dora")])
def test_plain_and_dora_together_are_those_of_peft(
    order: tuple[str, str], zoo: Path, merge: Merge, tmp_path: Path
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    first, second = (zoo / case / "adapter" for case in order)
    base = AutoModelForCausalLM.from_pretrained(zoo / "base/llama", dtype=torch.float32)
    model = PeftModel.from_pretrained(base, first, adapter_name="one")
    model.load_adapter(second, adapter_name="two")
    model.merge_and_unload(adapter_names=["one", "two"]).save_pretrained(tmp_path / "peft")
    theirs = load_file(tmp_path / "peft/model.safetensors")
    ours = merge(zoo / "base/llama", first, second)
    assert [n for n in ours if not torch.equal(ours[n], theirs[n].bfloat16())] == []


@pytest.mark.filterwarnings("ignore")
def test_another_method_upon_a_merged_adapter(
    zoo: Path, planned: Callable[..., Plan], tensors: Callable[[Plan], State], tmp_path: Path
) -> None:
    from safetensors.torch import save_file

    plan = planned(zoo / "base/llama", zoo / "lora_plain/adapter", zoo / "loha/adapter")
    assert plan.merges.sums[f"{Q}.weight"].terms[1].settings.peft_type == "LOHA"
    written = tmp_path / "written.safetensors"
    save_file(tensors(plan), written)
    check = merge_check(hold_file(written, "written", plan.merges), plan.merges)
    assert check.status == "pass", check.detail


def test_problems_of_all_the_adapters_come_at_once(zoo: Path, planned: Callable[..., Plan]) -> None:
    with pytest.raises(UserError) as error:
        planned(zoo / "base/llama", zoo / "lora_gpt2_conv1d/adapter", zoo / "conv_lora/adapter")
    subjects = {problem.subject.split(":")[0] for problem in error.value.problems}
    assert len(subjects) == 2


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_dtype_of_the_output_is_a_decision_of_its_own(
    dtype: str, zoo: Path, merge: Merge
) -> None:
    adapter = zoo / "lora_plain/adapter"
    ours = merge(zoo / "base/llama", adapter, recipe={"dtype": dtype})
    base = load_file(zoo / "base/llama/model.safetensors")[f"{Q}.weight"].float()
    exact = base + delta(adapter, Q, 8 / 4)
    assert torch.equal(ours[f"{Q}.weight"], exact.to(getattr(torch, dtype)))


def test_what_one_adapter_replaces_and_another_had_changed_is_told(
    zoo: Path, planned: Callable[..., Plan]
) -> None:
    """Whole modules are replaced: neither a sum nor a weight is possible."""
    adapter = str(zoo / "lora_modules_to_save/adapter")
    plan = planned(zoo / "base/llama", adapter, {"adapter": adapter, "weight": 0.5})
    said = {one.message for one in plan.findings if one.level == "warning" and one.check == "lora"}
    both = "`lm_head.weight`, `model.embed_tokens.weight`"
    assert f"{both}: replaced whole, whatever the weight 0.5" in said
    assert any(one.startswith(f"{both}: what {adapter} makes of it is lost") for one in said)
    alone = planned(zoo / "base/llama", adapter)
    assert not any("replaced whole" in one.message for one in alone.findings)
