"""Every kind of wrong conversion, of every kind of model: caught by the check that should, and named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Protocol

import pytest
import torch

State = dict[str, torch.Tensor]


class Sides(Protocol):
    kind: str
    source: object
    candidate: object

    def state(self) -> State: ...
    def store(self, state: State) -> None: ...


class Done(Protocol):
    code: int

    def failed(self) -> set[str]: ...
    def said(self) -> str: ...


Run = Callable[..., Done]

# Of each kind: a matrix, a square one, the front of its layers, what can be lost where there is no bias.
MATRIX = {
    "llama": "model.layers.1.mlp.up_proj.weight",
    "gpt2": "transformer.h.1.mlp.c_fc.weight",
    "bert": "bert.encoder.layer.1.intermediate.dense.weight",
    "t5": "decoder.block.1.layer.2.DenseReluDense.wi.weight",
    "vit": "vit.encoder.layer.1.intermediate.dense.weight",
    "whisper": "model.decoder.layers.1.fc1.weight",
    "mixtral": "model.layers.1.block_sparse_moe.experts.1.w1.weight",
}
SQUARE = {
    "llama": "model.layers.1.self_attn.q_proj.weight",
    "gpt2": "transformer.h.1.attn.c_proj.weight",
    "bert": "bert.encoder.layer.1.attention.self.query.weight",
    "t5": "decoder.block.1.layer.0.SelfAttention.q.weight",
    "vit": "vit.encoder.layer.1.attention.attention.query.weight",
    "whisper": "model.decoder.layers.1.self_attn.q_proj.weight",
    "mixtral": "model.layers.1.self_attn.q_proj.weight",
}
LAYERS = {
    "llama": "model.layers.",
    "gpt2": "transformer.h.",
    "bert": "bert.encoder.layer.",
    "t5": "encoder.block.",
    "vit": "vit.encoder.layer.",
    "whisper": "model.encoder.layers.",
    "mixtral": "model.layers.",
}
KEYS = {"q_proj": "k_proj", "query": "key", "SelfAttention.q.": "SelfAttention.k."}
LOSABLE = {"llama": "norm.weight", "t5": "layer_norm.weight", "mixtral": "norm.weight"}


def test_the_right_conversion_passes(sides: Sides, hfconvert: Run) -> None:
    done = hfconvert("verify", sides.source, sides.candidate)
    assert (done.code, done.failed()) == (0, set()), done.said()


def test_a_flipped_weight(sides: Sides, hfconvert: Run) -> None:
    state = sides.state()
    state[MATRIX[sides.kind]][3, 2] *= -1
    sides.store(state)
    done = hfconvert("verify", sides.source, sides.candidate)
    assert (done.code, done.failed()) == (1, {"tensors"})
    count = f"{state[MATRIX[sides.kind]].numel():,}"
    assert f"{MATRIX[sides.kind]}: 1 of {count} values differ, the first at [3, 2]" in done.said()


def test_swapped_layers(sides: Sides, hfconvert: Run) -> None:
    layers = LAYERS[sides.kind]

    def swapped(name: str) -> str:
        return re.sub(
            rf"^({re.escape(layers)})([01])\.", lambda at: f"{at[1]}{1 - int(at[2])}.", name
        )

    state = sides.state()
    names = {swapped(name) for name in state}
    changed = {
        swapped(name) if swapped(name) in state else name: one for name, one in state.items()
    }
    assert len(names & state.keys()) > 8
    sides.store(changed)
    done = hfconvert("verify", sides.source, sides.candidate)
    assert (done.code, done.failed()) == (1, {"tensors"})
    assert f"these are the values of {layers}" in done.said()


def test_a_transposed_square_matrix(sides: Sides, hfconvert: Run) -> None:
    name, state = SQUARE[sides.kind], sides.state()
    state[name] = state[name].T
    sides.store(state)
    done = hfconvert("verify", sides.source, sides.candidate)
    assert (done.code, done.failed()) == (1, {"tensors"})
    assert "these are the source's values transposed" in done.said()


def test_a_wrong_rotary_permutation(sides: Sides, hfconvert: Run) -> None:
    """Rows of each head from pairs side by side to halves, as Meta's and transformers' layouts differ."""
    name, state = SQUARE[sides.kind], sides.state()
    state[name] = state[name].reshape(4, 2, 2, 16).transpose(1, 2).reshape(16, 16)
    sides.store(state)
    done = hfconvert("verify", sides.source, sides.candidate)
    assert (done.code, done.failed()) == (1, {"tensors"})
    assert "these are the source's rows in another order" in done.said()


def test_a_wrong_order_of_queries_and_keys(sides: Sides, hfconvert: Run) -> None:
    state = sides.state()
    if sides.kind == "gpt2":  # one matrix, whose columns are queries, keys and values
        name = "transformer.h.1.attn.c_attn.weight"
        q, k, v = state[name].split(16, dim=1)
        state[name] = torch.cat([k, q, v], dim=1)
        said = f"{name}: 512 of 768 values differ, the first at [0, 0]"
    else:
        name = SQUARE[sides.kind]
        part = next(one for one in KEYS if one in name)
        other = name.replace(part, KEYS[part])
        state[name], state[other] = state[other], state[name]
        said = f"these are the values of {other}"
    sides.store(state)
    done = hfconvert("verify", sides.source, sides.candidate)
    assert (done.code, done.failed()) == (1, {"tensors"})
    assert said in done.said()


def test_a_lost_bias(sides: Sides, hfconvert: Run) -> None:
    ending = LOSABLE.get(sides.kind, "bias")
    state = sides.state()
    lost = [name for name in state if name.endswith(ending)][:2]
    assert len(lost) == 2
    sides.store({name: one for name, one in state.items() if name not in lost})
    done = hfconvert("verify", sides.source, sides.candidate)
    assert (done.code, done.failed()) == (1, {"names"})
    assert "2 tensors are missing" in done.said()


def test_bf16_where_fp32_was_meant(sides: Sides, hfconvert: Run) -> None:
    sides.store({name: one.bfloat16() for name, one in sides.state().items()})
    done = hfconvert("verify", sides.source, sides.candidate)
    assert (done.code, done.failed()) == (1, {"dtypes"})
    assert "config.json says float32, but tensors were cast to bfloat16" in done.said()


def test_a_stale_index(sides: Sides, hfconvert: Run) -> None:
    from pathlib import Path

    from safetensors.torch import save_file

    state, folder = sides.state(), Path(str(sides.candidate))
    (folder / "model.safetensors").unlink()
    names = sorted(state)
    files = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    parts = names[::2], names[1::2]
    for file, part in zip(files, parts, strict=True):
        save_file({name: state[name] for name in part}, folder / file, metadata={"format": "pt"})
    weight_map = {name: file for file, part in zip(files, parts, strict=True) for name in part}
    index = {"metadata": {"total_size": 0}, "weight_map": {**weight_map, names[0]: files[1]}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    done = hfconvert("verify", sides.source, sides.candidate)
    assert (done.code, done.failed()) == (1, {"names"})
    assert f"{names[0]}: the index maps it to {files[1]}" in done.said()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_cast_that_is_said_passes(sides: Sides, hfconvert: Run, dtype: torch.dtype) -> None:
    from pathlib import Path

    sides.store({name: one.to(dtype) for name, one in sides.state().items()})
    path = Path(str(sides.candidate)) / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "dtype": str(dtype).removeprefix("torch.")}))
    done = hfconvert("verify", sides.source, sides.candidate)
    assert (done.code, done.failed()) == (0, set()), done.said()
