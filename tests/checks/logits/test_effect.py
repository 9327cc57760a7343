"""`effect`: a merge is held against the source with its adapter beside it, where cosine sees nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hfconvert.checks.logits.check import Outcomes
from hfconvert.checks.result import Check

State = dict[str, torch.Tensor]
Folders = Callable[..., tuple[Path, Path]]
Compare = Callable[..., Outcomes]
# PEFT 0.21 asks transformers 5.24 for an attribute that is being renamed (November 2026).
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")

TARGETS = ["q_proj", "v_proj", "up_proj", "down_proj"]


@pytest.fixture
def merged(folders: Folders, tmp_path: Path) -> Callable[..., tuple[Path, Path, list[Path]]]:
    """A llama, adapters for it, and the merge by PEFT, whose update `edit` may scale by name."""

    def make(
        scale: Callable[[str], float] = lambda _name: 1.0,
        weights: tuple[float, ...] = (1.0,),
        size: float = 0.02,
    ) -> tuple[Path, Path, list[Path]]:
        from peft import LoraConfig, PeftModel, get_peft_model
        from safetensors.torch import load_file, save_file
        from transformers import LlamaForCausalLM

        reference, candidate = folders("llama")
        before = load_file(candidate / "model.safetensors")
        update = {name: torch.zeros_like(one) for name, one in before.items()}
        adapters = []
        for number, weight in enumerate(weights):
            torch.manual_seed(number)
            model = get_peft_model(
                LlamaForCausalLM.from_pretrained(candidate),
                LoraConfig(r=4, lora_alpha=8, target_modules=TARGETS),
            )
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.data.normal_(std=size)
            folder = tmp_path / f"adapter{number}"
            model.save_pretrained(str(folder))
            adapters.append(folder)
            whole: Any = PeftModel.from_pretrained(
                LlamaForCausalLM.from_pretrained(candidate), folder
            )
            after = whole.merge_and_unload().state_dict()
            for name, one in before.items():
                update[name] += weight * (after[name] - one)
        state = {name: one + scale(name) * update[name] for name, one in before.items()}
        save_file(state, candidate / "model.safetensors", metadata={"format": "pt"})
        return reference, candidate, adapters

    return make


def effect(outcomes: Outcomes) -> Check:
    (found,) = (one for one in outcomes.checks if one.name == "effect")
    return found


def run(
    compare: Compare,
    sides: tuple[Path, Path, list[Path]],
    weights: tuple[float, ...] = (1.0,),
    **options: Any,
) -> Outcomes:
    reference, candidate, adapters = sides
    given = [
        {"folder": str(one), "weight": weight}
        for one, weight in zip(adapters, weights, strict=True)
    ]
    return compare(reference, candidate, adapters=given, **options)


Merged = Callable[..., tuple[Path, Path, list[Path]]]


def test_a_right_merge_has_the_effect_of_its_adapter(merged: Merged, compare: Compare) -> None:
    outcomes = run(compare, merged())
    assert [one.name for one in outcomes.checks] == ["logits", "effect"]
    check = effect(outcomes)
    assert check.status == "pass"
    assert check.measured["effect_error"] < 1e-3
    assert check.measured["effect"] > 1e-3
    assert check.limit == {"effect_error": 0.05}


def test_a_merge_that_did_nothing_passes_by_cosine_and_fails_by_effect(
    merged: Merged, compare: Compare
) -> None:
    outcomes = run(compare, merged(lambda _name: 0.0, size=0.001))
    assert outcomes.checks[0].measured["cosine_mean"] > 0.999
    check = effect(outcomes)
    assert check.status == "fail"
    assert check.measured["effect_error"] == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("scale", "least"),
    [
        (lambda _name: 0.5, 0.4),
        (lambda _name: 2.0, 0.8),
        (lambda name: 0.0 if ".layers.1." in name else 1.0, 0.1),
    ],
    ids=["half scale", "twice", "a layer left out"],
)
def test_half_a_merge_fails(
    merged: Merged, compare: Compare, scale: Callable[[str], float], least: float
) -> None:
    check = effect(run(compare, merged(scale)))
    assert check.status == "fail"
    assert check.measured["effect_error"] > least


def test_several_adapters_with_weights(merged: Merged, compare: Compare) -> None:
    weights = (0.5, 1.0)
    sides = merged(weights=weights)
    done = effect(run(compare, sides, weights))
    assert done.status == "pass", done.detail
    assert effect(run(compare, sides, (1.0, 1.0))).status == "fail"


@pytest.mark.parametrize(("name", "status"), [("adapter_model", "pass"), ("lora", "skipped")])
def test_a_configuration_that_was_lost_is_given(
    name: str, status: str, merged: Merged, compare: Compare
) -> None:
    """PEFT reads the weights of a folder under their usual name only."""
    reference, candidate, (adapter,) = merged()
    (adapter / "adapter_config.json").unlink()
    (adapter / "adapter_model.safetensors").rename(adapter / f"{name}.safetensors")
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": TARGETS}
    given = [{"folder": str(adapter), "weight": 1.0, "config": config}]
    check = effect(compare(reference, candidate, adapters=given))
    assert check.status == status
    assert ("as PEFT does not read it" in check.detail) == (status == "skipped")


def test_the_rounding_floor_widens_the_limit(merged: Merged, compare: Compare) -> None:
    check = effect(run(compare, merged(lambda _name: 0.9), rounding_floor=0.1))
    assert check.limit == {"effect_error": 0.35}
    assert check.status == "pass"


def test_an_adapter_that_changes_nothing_is_said(merged: Merged, compare: Compare) -> None:
    check = effect(run(compare, merged(size=0.0)))
    assert check.status == "skipped"
    assert check.detail == "the adapter changes nothing on these inputs"


def test_an_adapter_that_peft_cannot_read_is_a_fault_of_the_harness(
    merged: Merged, compare: Compare
) -> None:
    sides = merged()
    (sides[2][0] / "adapter_config.json").write_text("{}")
    outcomes = run(compare, sides)
    assert {one.status for one in outcomes.checks} == {"skipped"}
    assert {one.name for one in outcomes.checks} == {"logits", "effect"}
