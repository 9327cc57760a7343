from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from hfconvert.keymap.apply import apply

Any_ = Callable[..., Any]


def _where(*path: object) -> str:
    return ".".join(map(str, path))


def _gpt2() -> dict[str, Any]:
    import transformers

    torch.manual_seed(5)
    config = transformers.GPT2Config(n_layer=2, n_embd=8, n_head=2, vocab_size=11, n_positions=16)
    state = transformers.GPT2LMHeadModel(config).state_dict()
    return {name: tensor.numpy().view("<u4") for name, tensor in state.items()}


def _linear(arrays: dict[str, Any]) -> dict[str, Any]:
    """As ports to Linear have it, with the mask that they store."""
    found = {
        name: np.ascontiguousarray(array.T) if ".c_" in name and name.endswith(".weight") else array
        for name, array in arrays.items()
    }
    masks = {f"transformer.h.{i}.attn.bias": np.ones((1, 1, 16, 16), "u1") for i in range(2)}
    return {**found, **masks}


def test_linear_becomes_conv1d_value_by_value(holding: Any_, values: Any_, step: Any_) -> None:
    expected = _gpt2()
    before = holding(_linear(expected))
    result = apply(before, [step("family", {"name": "gpt2-conv1d"})], _where).checkpoint
    found = values(result)
    assert set(found) == set(expected)
    assert all(np.array_equal(found[name], array) for name, array in expected.items())
    assert {one.name for one in result.dropped} == {f"transformer.h.{i}.attn.bias" for i in (0, 1)}


def test_the_same_steps_lead_back(holding: Any_, values: Any_, step: Any_) -> None:
    expected = _gpt2()
    twice = [step("family", {"name": "gpt2-conv1d"})] * 2
    found = values(apply(holding(expected), twice, _where).checkpoint)
    assert all(np.array_equal(found[name], array) for name, array in expected.items())
