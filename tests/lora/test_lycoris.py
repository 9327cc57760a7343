"""What LyCORIS stores otherwise than PEFT, held against its formulas in float64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from hfconvert.errors import UserError
from hfconvert.planning.plan import Plan

State = dict[str, torch.Tensor]
Merge = Callable[..., State]
MODULE = "encoder.layers.0.mlp.fc1"
FLAT = "lora_te_encoder_layers_0_mlp_fc1"


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., tuple[Path, torch.Tensor, Path]]:
    """A base with one layer, and an adapter with these tensors of it."""

    def store(shape: tuple[int, ...], **tensors: torch.Tensor) -> tuple[Path, torch.Tensor, Path]:
        weight = drawn(*shape) + 1
        base, adapter = tmp_path / "base.safetensors", tmp_path / "adapter.safetensors"
        save_file({f"{MODULE}.weight": weight, f"{MODULE}.bias": torch.zeros(shape[0])}, base)
        named = {f"{FLAT}.{name.replace('__', '.')}": one for name, one in tensors.items()}
        save_file(named, adapter)
        return base, weight, adapter

    return store


Stored = Callable[..., tuple[Path, torch.Tensor, Path]]


def close(ours: torch.Tensor, exact: torch.Tensor) -> bool:
    return torch.allclose(ours.double(), exact, rtol=0, atol=2e-6)


def test_loha_scaled_by_its_own_alpha(stored: Stored, merge: Merge) -> None:
    one, two = (drawn(12, 2), drawn(2, 8)), (drawn(12, 2) * 0.5, drawn(2, 8) + 1)
    base, weight, adapter = stored(
        (12, 8),
        hada_w1_a=one[0],
        hada_w1_b=one[1],
        hada_w2_a=two[0],
        hada_w2_b=two[1],
        alpha=torch.tensor(3.0),
    )
    delta = (one[0].double() @ one[1].double()) * (two[0].double() @ two[1].double()) * (3 / 2)
    assert close(merge(base, adapter)[f"{MODULE}.weight"], weight.double() + delta)


def test_lokr_of_two_whole_matrices_has_no_scale(stored: Stored, merge: Merge) -> None:
    one, two = drawn(4, 2), drawn(4, 4)
    base, weight, adapter = stored((16, 8), lokr_w1=one, lokr_w2=two, alpha=torch.tensor(7.0))
    exact = weight.double() + torch.kron(one.double(), two.double())
    assert close(merge(base, adapter)[f"{MODULE}.weight"], exact)


def test_lokr_with_a_matrix_of_low_rank_is_scaled(stored: Stored, merge: Merge) -> None:
    one, left, right = drawn(2, 2), drawn(8, 2), drawn(2, 8)
    base, weight, adapter = stored(
        (16, 16), lokr_w1=one, lokr_w2_a=left, lokr_w2_b=right, alpha=torch.tensor(1.0)
    )
    exact = weight.double() + torch.kron(one.double(), left.double() @ right.double()) / 2
    assert close(merge(base, adapter)[f"{MODULE}.weight"], exact)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_magnitude_over_either_axis_of_a_square_layer(
    axis: int, stored: Stored, merge: Merge
) -> None:
    a, b = drawn(2, 6), drawn(6, 2)
    magnitude = drawn(6).abs().reshape((6, 1) if axis == 0 else (1, 6)) + 1
    base, weight, adapter = stored(
        (6, 6),
        lora_down__weight=a,
        lora_up__weight=b,
        dora_scale=magnitude,
        alpha=torch.tensor(2.0),
    )
    whole = weight.double() + b.double() @ a.double()
    exact = whole * magnitude.double() / whole.norm(dim=1 - axis, keepdim=True)
    assert close(merge(base, adapter)[f"{MODULE}.weight"], exact)


def test_a_magnitude_whose_axis_is_open_is_an_error(
    stored: Stored, planned: Callable[..., Plan]
) -> None:
    base, _, adapter = stored(
        (6, 6),
        lora_down__weight=drawn(2, 6),
        lora_up__weight=drawn(6, 2),
        dora_scale=drawn(6),
        alpha=torch.tensor(2.0),
    )
    with pytest.raises(UserError, match="its axis is open") as error:
        planned(base, adapter)
    assert error.value.exit == 3


def test_whole_differences_are_added(stored: Stored, merge: Merge) -> None:
    delta, bias = drawn(12, 8), drawn(12)
    base, weight, adapter = stored(
        (12, 8),
        diff=delta,
        diff_b=bias,
        lora_down__weight=drawn(2, 8),
        lora_up__weight=torch.zeros(12, 2),
        alpha=torch.tensor(1.0),
    )
    ours = merge(base, adapter)
    assert close(ours[f"{MODULE}.weight"], weight.double() + delta.double())
    assert torch.equal(ours[f"{MODULE}.bias"], bias)


def test_parameters_that_are_not_known_are_an_error(
    stored: Stored, planned: Callable[..., Plan]
) -> None:
    base, _, adapter = stored(
        (12, 8),
        lora_down__weight=drawn(2, 8),
        lora_up__weight=drawn(12, 2),
        lora_mid__weight=drawn(2, 2),
        alpha=torch.tensor(1.0),
    )
    with pytest.raises(UserError, match=r"does not know what to do with `lora_mid\.weight`"):
        planned(base, adapter)
