"""Adapters of diffusers and of kohya's scripts, merged into one part of a pipeline at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hfconvert.errors import UserError
from hfconvert.planning.plan import Plan

Merge = Callable[..., dict[str, torch.Tensor]]


@pytest.mark.parametrize("part", ["unet", "text_encoder"])
@pytest.mark.parametrize("adapter", ["diffusers_peft_metadata", "kohya"])
def test_alpha_is_what_the_file_records(part: str, adapter: str, zoo: Path, merge: Merge) -> None:
    folder = zoo / "diffusers"
    ours = merge(folder / "base" / part, folder / adapter)
    expected = load_file(folder / f"expected_{part}.safetensors")
    assert expected.keys() <= ours.keys()
    for name, tensor in expected.items():
        assert torch.allclose(ours[name], tensor, rtol=0, atol=1e-6), name


def test_the_old_names_of_attention_processors(zoo: Path, merge: Merge) -> None:
    folder = zoo / "diffusers"
    ours = merge(folder / "base/unet", folder / "diffusers_old")
    for name, tensor in load_file(folder / "expected_unet_old.safetensors").items():
        assert torch.allclose(ours[name], tensor, rtol=0, atol=1e-6), name


def test_without_alpha_the_convention_is_scale_one_and_that_is_said(
    zoo: Path, planned: Callable[..., Plan], merge: Merge
) -> None:
    folder = zoo / "diffusers"
    base = load_file(folder / "base/unet/diffusion_pytorch_model.safetensors")
    ours = merge(folder / "base/unet", folder / "diffusers_peft")
    name, expected = next(iter(load_file(folder / "expected_unet.safetensors").items()))
    third = base[name] + (expected - base[name]) / 3  # alpha 6 over rank 2
    assert torch.allclose(ours[name], third, rtol=0, atol=1e-6)
    plan = planned(folder / "base/unet", folder / "diffusers_peft")
    warned = [one.message for one in plan.findings if one.level == "warning"]
    assert any("record no alpha: alpha is the rank" in message for message in warned)
    assert any("are for `text_encoder`, which is not this source" in one for one in warned)


def test_the_recipes_alpha_wins_over_the_convention(zoo: Path, merge: Merge) -> None:
    folder = zoo / "diffusers"
    ours = merge(folder / "base/unet", folder / "diffusers_peft", lora_alpha=6.0)
    for name, tensor in load_file(folder / "expected_unet.safetensors").items():
        assert torch.allclose(ours[name], tensor, rtol=0, atol=1e-6), name


def test_an_adapter_for_another_part_alone_is_an_error(
    zoo: Path, planned: Callable[..., Plan]
) -> None:
    with pytest.raises(UserError, match="match nothing in the base") as error:
        planned(zoo / "diffusers/base/text_encoder", zoo / "diffusers/diffusers_old")
    assert error.value.exit == 3
