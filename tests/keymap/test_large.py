"""Maps of the largest models there are, from specs alone: nothing is read, every name is accounted for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hfconvert.keymap.apply import apply
from hfconvert.report.maps import map_lines
from hfconvert.tensors.checkpoint import Checkpoint, found
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf

Any_ = Callable[..., Any]
HIDDEN, EXPERTS, LAYERS = 7168, 256, 61
ATTENTION: dict[str, tuple[int, ...]] = {
    "self_attn.q_a_proj.weight": (1536, HIDDEN),
    "self_attn.q_b_proj.weight": (24576, 1536),
    "self_attn.kv_a_proj_with_mqa.weight": (576, HIDDEN),
    "self_attn.kv_b_proj.weight": (32768, 512),
    "self_attn.o_proj.weight": (HIDDEN, 16384),
    "input_layernorm.weight": (HIDDEN,),
}


def _where(*path: object) -> str:
    return ".".join(map(str, path))


def _checkpoint(shapes: dict[str, tuple[int, ...]], source: Any) -> Checkpoint:
    tensors, start = {}, 0
    for name, shape in shapes.items():
        spec = TensorSpec(BY_CODE["BF16"], shape)
        tensors[name] = Leaf.packed(spec, source, start)
        start += spec.nbytes
    return found(tensors)


def _experts() -> dict[str, tuple[int, ...]]:
    """671 billion parameters: 58 layers of 256 experts."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (129280, HIDDEN)}
    for layer in range(LAYERS):
        base = f"model.layers.{layer}"
        shapes |= {f"{base}.{name}": shape for name, shape in ATTENTION.items()}
        modules = [f"experts.{n}" for n in range(EXPERTS)] if layer > 2 else []
        for module in modules:
            name = f"{base}.mlp.{module}"
            shapes |= {f"{name}.gate_proj.weight": (2048, HIDDEN)}
            shapes |= {f"{name}.up_proj.weight": (2048, HIDDEN)}
            shapes |= {f"{name}.down_proj.weight": (HIDDEN, 2048)}
    return shapes


def _dense() -> dict[str, tuple[int, ...]]:
    """70 billion parameters."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (128256, 8192)}
    for layer in range(80):
        base = f"model.layers.{layer}"
        rows = {"q": 8192, "k": 1024, "v": 1024}
        shapes |= {f"{base}.self_attn.{n}_proj.weight": (one, 8192) for n, one in rows.items()}
        shapes |= {f"{base}.mlp.{n}_proj.weight": (28672, 8192) for n in ("gate", "up")}
        shapes |= {f"{base}.mlp.down_proj.weight": (8192, 28672)}
    return shapes


@pytest.fixture
def nowhere(checkpoint: Any_) -> Any:
    return checkpoint(["x"])["x"].tensor.source


def test_experts_of_671_billion_parameters_are_stacked(nowhere: Any, step: Any_) -> None:
    before = _checkpoint(_experts(), nowhere)
    assert len(before) == 44911
    result = apply(before, [step("family", {"name": "moe-stacked"})], _where).checkpoint
    assert len(result) == 1 + LAYERS * len(ATTENTION) + 2 * (LAYERS - 3)
    fused = result["model.layers.60.mlp.experts.gate_up_proj"]
    assert fused.tensor.spec.shape == (EXPERTS, 4096, HIDDEN)
    assert len(fused.sources) == 2 * EXPERTS
    elements = sum(entry.tensor.spec.elements for entry in result.values())
    assert elements == sum(entry.tensor.spec.elements for entry in before.values()) > 6.6e11
    lines = list(map_lines(result.items()))
    assert len(lines) == 5


@pytest.mark.slow
def test_there_and_back_is_what_there_was(nowhere: Any, step: Any_) -> None:
    before = _checkpoint(_experts(), nowhere)
    both = [step("family", {"name": name}) for name in ("moe-stacked", "moe-unstacked")]
    result = apply(before, both, _where).checkpoint
    assert result.keys() == before.keys()
    assert all(result[name].tensor is before[name].tensor for name in before)


def test_attention_of_70_billion_parameters_is_fused(nowhere: Any, step: Any_) -> None:
    before = _checkpoint(_dense(), nowhere)
    names = [f"model.layers.{{i}}.self_attn.{n}_proj.weight" for n in "qkv"]
    key_map = [
        step("permute_rope", {"names": (names[0],), "heads": 64, "to": "interleaved"}),
        step("permute_rope", {"names": (names[1],), "heads": 8, "to": "interleaved"}),
        step(
            "qkv",
            {
                "from": tuple(names),
                "into": "layers.{i}.wqkv.weight",
                "layout": "interleaved",
                "heads": 64,
                "kv_heads": 8,
            },
        ),
        step("transpose", ("*.down_proj.weight",)),
    ]
    result = apply(before, key_map, _where).checkpoint
    assert result["layers.79.wqkv.weight"].tensor.spec.shape == (10240, 8192)
    assert result["model.layers.0.mlp.down_proj.weight"].tensor.spec.shape == (28672, 8192)
