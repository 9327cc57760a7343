"""Quantised bases made plain, held against the libraries that quantised them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from hfconvert.errors import UserError
from hfconvert.lora.parents import parent_of
from hfconvert.lora.quantized import make_plain
from hfconvert.readers.load import Wanted, load
from hfconvert.tensors.box import full, shape_of
from hfconvert.tensors.computed import elements_at
from hfconvert.tensors.lazy import LazyTensor

FOLDER = Path(__file__).parents[1] / "fixtures" / "quantized"


def plain(path: Path, config: dict[str, Any]) -> dict[str, LazyTensor]:
    found = load(path, Wanted())
    made = make_plain(
        found.checkpoint, config, "dequantize", lambda: None, lambda *path: "recipe.yaml:1:1"
    )
    return {name: entry.tensor for name, entry in made.checkpoint.items()}


def as_torch(tensor: LazyTensor, box: Any = None) -> torch.Tensor:
    box = box or full(tensor.extent)
    raw = np.empty(shape_of(box), tensor.spec.dtype.raw)
    tensor.fill(raw, box)
    assert (elements_at(tensor, box) == raw).all(), "the second route differs"
    return torch.from_numpy(raw.view(f"i{raw.itemsize}")).view(
        getattr(torch, tensor.spec.dtype.torch)
    )


EXPECTED = load_file(FOLDER / "expected.safetensors")
MADE = plain(FOLDER / "model.safetensors", {"dtype": "float16"})


def test_every_stored_tensor_goes_into_a_weight() -> None:
    assert MADE.keys() == EXPECTED.keys()


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_as_bitsandbytes_makes_them_plain(name: str) -> None:
    made = as_torch(MADE[name])
    assert torch.equal(made, EXPECTED[name].to(made.dtype))


@given(data=st.data(), name=st.sampled_from(sorted(EXPECTED)))
def test_any_part_is_that_part_of_the_whole(data: Any, name: str) -> None:
    tensor = MADE[name]
    box = []
    for size in tensor.extent:
        lo = data.draw(st.integers(0, size - 1))
        box.append((lo, data.draw(st.integers(lo + 1, size))))
    (a, b), (c, d) = box
    assert torch.equal(as_torch(tensor, tuple(box)), as_torch(tensor)[a:b, c:d])


def test_mxfp4_as_transformers_makes_it_plain(tmp_path: Path) -> None:
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    generator = torch.Generator().manual_seed(0)
    blocks = torch.randint(0, 256, (3, 8, 2, 16), dtype=torch.uint8, generator=generator)
    scales = torch.randint(110, 140, (3, 8, 2), dtype=torch.uint8, generator=generator)
    path = tmp_path / "model.safetensors"
    save_file({"e.gate_up_proj_blocks": blocks, "e.gate_up_proj_scales": scales}, path)
    made = plain(path, {"dtype": "bfloat16"})
    wanted = convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16)
    assert made.keys() == {"e.gate_up_proj"}
    assert torch.equal(as_torch(made["e.gate_up_proj"]), wanted)


def test_fp8_in_blocks_with_ragged_edges(tmp_path: Path) -> None:
    weight = torch.randn(200, 300).to(torch.float8_e4m3fn)
    scales = torch.rand(2, 3)
    path = tmp_path / "model.safetensors"
    save_file({"l.weight": weight, "l.weight_scale_inv": scales}, path)
    wide = scales.repeat_interleave(128, 0)[:200].repeat_interleave(128, 1)[:, :300]
    made = plain(path, {"dtype": "bfloat16"})
    assert torch.equal(as_torch(made["l.weight"]), (weight.float() * wide).bfloat16())


def test_formats_that_are_not_made_plain_say_so(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"l.qweight": torch.zeros(4, 4, dtype=torch.int32)}, path)
    with pytest.raises(UserError) as error:
        plain(path, {})
    assert error.value.exit == 3
    assert "GPTQ or AWQ are not made plain" in str(error.value)


@pytest.mark.parametrize(
    ("name", "parent"),
    [
        ("unsloth/llama-3-8b-bnb-4bit", "unsloth/llama-3-8b"),
        ("unsloth/Qwen3-4B-unsloth-bnb-4bit", "unsloth/Qwen3-4B"),
        ("org/Model-7B-GPTQ-Int4", "org/Model-7B"),
        ("org/Model-7B-AWQ", "org/Model-7B"),
        ("org/Model-7B-FP8", "org/Model-7B"),
        ("org/Model-7B", None),
        ("model-bnb-4bit", None),
    ],
)
def test_the_parent_by_the_name(name: str, parent: str | None) -> None:
    assert parent_of({}, name, None) == parent
    assert parent_of({"_name_or_path": name}, None, None) == parent


@pytest.mark.parametrize(
    ("head", "parent"),
    [
        ("base_model: org/plain\nbase_model_relation: quantized\n", "org/plain"),
        ("license: mit\nbase_model:\n- org/plain\n", "org/plain"),
        ("base_model: org/plain\nbase_model_relation: finetune\n", "org/model"),
        ("base_model: [org/one, org/two]\n", "org/model"),
        ("base_model: org/model-bnb-4bit\n", "org/model"),
        ("base_model: ../../etc/passwd\n", "org/model"),
        ("base_model: [\n", "org/model"),
        ("tags: [x]\n", "org/model"),
    ],
)
def test_the_parent_by_the_card_else_by_the_name(head: str, parent: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"---\n{head}---\n# Card\nbase_model: no/such\n")
    assert parent_of({}, "org/model-bnb-4bit", tmp_path) == parent


def test_a_folder_without_a_card(tmp_path: Path) -> None:
    assert parent_of({}, "org/model", tmp_path) is None
    (tmp_path / "README.md").write_text("no metadata\n")
    assert parent_of({}, "org/model", tmp_path) is None
