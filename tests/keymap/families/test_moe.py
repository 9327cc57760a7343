"""Against what transformers itself holds in memory and writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hfconvert.keymap.apply import apply
from hfconvert.keymap.families.resolve import Values

Any_ = Callable[..., Any]


def _where(*path: object) -> str:
    return ".".join(map(str, path))


def _model(kind: str) -> Any:
    import transformers

    sizes: dict[str, Any] = {
        "hidden_size": 8,
        "intermediate_size": 4,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "vocab_size": 11,
    }
    torch.manual_seed(7)
    if kind == "mixtral":
        config: Any = transformers.MixtralConfig(**sizes, num_local_experts=3)
        return transformers.MixtralForCausalLM(config)
    sizes |= {"num_experts": 3, "moe_intermediate_size": 4, "num_experts_per_tok": 2}
    return transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**sizes))


def _arrays(state: Any) -> dict[str, Any]:
    return {name: tensor.contiguous().numpy().view("<u4") for name, tensor in state.items()}


def _written(model: Any, folder: Path) -> dict[str, Any]:
    """As transformers writes it: the repositories' own layout, expert by expert."""
    from safetensors.torch import load_file

    model.save_pretrained(folder)
    return _arrays(load_file(folder / "model.safetensors"))


@pytest.mark.parametrize("kind", ["qwen3_moe", "mixtral"])
def test_both_ways_value_by_value(
    holding: Any_, values: Any_, step: Any_, tmp_path: Path, kind: str
) -> None:
    model = _model(kind)
    one_by_one, stacked = _written(model, tmp_path), _arrays(model.state_dict())
    there = [step("family", {"name": "moe-stacked"})]
    found = apply(holding(one_by_one), there, _where).checkpoint
    got = values(found)
    assert set(got) == set(stacked)
    assert all(np.array_equal(got[name], array) for name, array in stacked.items())
    back = [step("family", {"name": "moe-unstacked"})]
    again = apply(holding(stacked), back, _where, Values({"model_type": kind})).checkpoint
    got = values(again)
    assert set(got) == set(one_by_one)
    assert all(np.array_equal(got[name], array) for name, array in one_by_one.items())


def test_the_round_trip_holds_every_expert(holding: Any_, values: Any_, step: Any_) -> None:
    arrays = _arrays(_model("qwen3_moe").state_dict())
    both = [step("family", {"name": "moe-unstacked"}), step("family", {"name": "moe-stacked"})]
    result = apply(holding(arrays), both, _where)
    got = values(result.checkpoint, 50)
    assert all(np.array_equal(got[name], array) for name, array in arrays.items())
    assert "`model_type` is taken as" in result.findings[0].message
