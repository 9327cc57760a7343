"""Wrong recipes: every byte is copied, under a wrong name or in a wrong order; a reference finds it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch

from tests.sabotage.maps import FUSED, HALF


class Done(Protocol):
    code: int
    report: dict[str, Any]

    def failed(self) -> set[str]: ...
    def said(self) -> str: ...


Run = Callable[..., Done]


@pytest.fixture(params=["llama", "mixtral"])
def convert(
    request: pytest.FixtureRequest,
    built: Callable[[str], Path],
    tmp_path: Path,
    hfconvert: Run,
) -> Callable[..., Done]:
    """Convert a source that `spoil` made of the right one, against the right one as the reference."""
    shutil.copytree(built(request.param), tmp_path / "sides")
    source = tmp_path / "sides" / "source"

    def run(
        spoil: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], key_map: Any
    ) -> Done:
        state = torch.load(source / "pytorch_model.bin", weights_only=True)
        torch.save(spoil(state), source / "pytorch_model.bin")
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text(
            json.dumps(
                {
                    "version": 1,
                    "source": {"path": str(source)},
                    "key_map": key_map,
                    "validate": {"reference": str(tmp_path / "sides" / "candidate")},
                }
            )
        )
        done = hfconvert("run", recipe, "--output", tmp_path / "out")
        assert (tmp_path / "out").exists() == (done.code == 0)
        return done

    return run


def interleaved(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Queries and keys with the pairs of each head side by side, as Meta stores them."""
    return {
        name: one.reshape(4, 2, 2, 16).transpose(1, 2).reshape(16, 16)
        if name.endswith(("q_proj.weight", "k_proj.weight"))
        else one
        for name, one in state.items()
    }


def fused(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Queries, keys and values in one matrix, one block after the other."""
    for layer in range(2):
        prefix = f"model.layers.{layer}.self_attn."
        parts = [state.pop(f"{prefix}{one}_proj.weight") for one in "qkv"]
        state[f"{prefix}qkv.weight"] = torch.cat(parts)
    return state


def same(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return state


def test_a_right_rotary_permutation_passes(convert: Callable[..., Done]) -> None:
    done = convert(interleaved, HALF)
    assert (done.code, done.failed()) == (0, set()), done.said()


def test_a_rotary_permutation_that_was_forgotten(convert: Callable[..., Done]) -> None:
    done = convert(interleaved, [])
    assert (done.code, done.failed()) == (1, {"logits"})


def test_a_rotary_permutation_too_many(convert: Callable[..., Done]) -> None:
    done = convert(same, HALF)
    assert (done.code, done.failed()) == (1, {"logits"})


def test_the_right_layout_of_qkv_passes(convert: Callable[..., Done]) -> None:
    done = convert(fused, [{"qkv": FUSED}])
    assert (done.code, done.failed()) == (0, set()), done.said()


@pytest.mark.parametrize(
    "wrong",
    [
        {"layout": "interleaved"},
        {"into": [FUSED["into"][place] for place in (1, 0, 2)]},
    ],
    ids=["layout", "order"],
)
def test_a_wrong_layout_or_order_of_qkv(
    convert: Callable[..., Done], wrong: dict[str, Any]
) -> None:
    done = convert(fused, [{"qkv": {**FUSED, **wrong}}])
    assert (done.code, done.failed()) == (1, {"logits"})


def test_a_transposed_square_matrix(convert: Callable[..., Done]) -> None:
    done = convert(same, [{"transpose": ["*.o_proj.weight"]}])
    assert (done.code, done.failed()) == (1, {"logits"})


def test_a_lost_tensor_is_a_name_that_the_reference_has(convert: Callable[..., Done]) -> None:
    done = convert(same, [{"drop": ["model.norm.weight"]}])
    assert (done.code, done.failed()) == (1, {"architecture"})
    assert "1 missing: `model.norm.weight`" in done.said()
