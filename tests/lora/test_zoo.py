"""Adapters that PEFT wrote, merged bit for bit as PEFT merges them in this very process.

`float32` is held against PEFT's merge of the base widened to float32 and rounded once, `native` against
`merge_and_unload` at the stored dtypes; both against the stored answers, which another machine computed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

State = dict[str, torch.Tensor]
Merge = Callable[..., State]

FIXTURES = Path(__file__).parents[1] / "fixtures" / "lora"
CASES = sorted(
    folder.name for folder in FIXTURES.iterdir() if (folder / "expected.safetensors").exists()
)
CONVOLUTIONS = [case for case in CASES if case.startswith("conv_")]
MODELS = [case for case in CASES if case not in CONVOLUTIONS]
# PEFT merges an update of one end into both ends of a tie, so that the model is another.
WRONG_ENDS = {"lora_tied_target_embed", "lora_gpt2_wte_tied"}


def base_of(case: str) -> Path:
    name: str = json.loads((FIXTURES / case / "origin.json").read_text())["base"]
    return FIXTURES / case / name if name.endswith(".safetensors") else FIXTURES / "base" / name


def adapters_of(case: str) -> list[Path]:
    folder = FIXTURES / case / "adapter"
    return [folder] if (folder / "adapter_config.json").exists() else sorted(folder.iterdir())


def by_peft(case: str, dtype: torch.dtype, folder: Path) -> State:
    """What PEFT makes of it, under the names that transformers writes."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(base_of(case), dtype=dtype)
    names = [f"adapter{number}" for number, _ in enumerate(adapters_of(case))]
    model: Any = None
    for name, path in zip(names, adapters_of(case), strict=True):
        if model is None:
            model = PeftModel.from_pretrained(base, path, adapter_name=name)
        else:
            model.load_adapter(path, adapter_name=name)
    merged = model.merge_and_unload(adapter_names=names)
    merged.save_pretrained(folder)
    return load_file(folder / "model.safetensors")


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


def units_apart(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """How many values of bfloat16 lie between the two."""

    def ordered(tensor: torch.Tensor) -> torch.Tensor:
        bits = tensor.contiguous().view(torch.int16).int()
        return torch.where(bits < 0, -32768 - bits, bits)

    return (ordered(one) - ordered(other)).abs()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [case for case in MODELS if case not in WRONG_ENDS])
def test_float32_equals_peft_on_the_widened_base_rounded_once(
    case: str, merge: Merge, tmp_path: Path
) -> None:
    ours = merge(base_of(case), *adapters_of(case))
    theirs = by_peft(case, torch.float32, tmp_path / "peft")
    assert ours.keys() == theirs.keys()
    assert [
        name for name in ours if not same_bits(ours[name], theirs[name].to(ours[name].dtype))
    ] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [case for case in MODELS if case not in WRONG_ENDS])
def test_native_equals_merge_and_unload_at_the_stored_dtypes(
    case: str, merge: Merge, tmp_path: Path
) -> None:
    ours = merge(base_of(case), *adapters_of(case), compute_dtype="native")
    theirs = by_peft(case, torch.bfloat16, tmp_path / "peft")
    assert ours.keys() == theirs.keys()
    assert [
        name for name in ours if not same_bits(ours[name], theirs[name].to(ours[name].dtype))
    ] == []


@pytest.mark.parametrize("case", MODELS)
def test_the_stored_answer_is_met_within_one_unit(case: str, merge: Merge) -> None:
    ours = merge(base_of(case), *adapters_of(case))
    expected = load_file(FIXTURES / case / "expected.safetensors")
    base = load_file(base_of(case) / "model.safetensors")
    for name, tensor in ours.items():
        if name in expected:
            apart = units_apart(tensor, expected[name].bfloat16())
            near = (
                tensor.float() - expected[name]
            ).abs() < 1e-6  # where PiSSA's sum nearly cancels
            assert bool(((apart <= 1) | near).all()), name
        else:
            assert torch.equal(tensor, base[name]), name
    assert expected.keys() <= ours.keys()


class Net(torch.nn.Module):
    """What the convolutions of the fixtures were trained in."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)
        self.emb = torch.nn.Embedding(20, 8)
        self.c1 = torch.nn.Conv1d(4, 8, 3)
        self.c2 = torch.nn.Conv2d(4, 8, 3, bias=False)
        self.c2g = torch.nn.Conv2d(4, 8, 3, groups=2)
        self.c2s = torch.nn.Conv2d(8, 6, 1)
        self.c3 = torch.nn.Conv3d(2, 4, 2)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_equal_peft(case: str, merge: Merge) -> None:
    from peft import PeftModel

    net = Net()
    net.load_state_dict(load_file(base_of(case)))
    theirs = PeftModel.from_pretrained(net, adapters_of(case)[0]).merge_and_unload().state_dict()
    ours = merge(base_of(case), *adapters_of(case))
    expected = load_file(FIXTURES / case / "expected.safetensors")
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not same_bits(ours[name], theirs[name])] == []
    for name, tensor in expected.items():
        assert torch.allclose(ours[name], tensor, rtol=0, atol=1e-6), name


def test_every_fixture_is_looked_at() -> None:
    folders = {folder.name for folder in FIXTURES.iterdir() if folder.is_dir()}
    assert folders - set(CASES) == {"base", "diffusers", "conv_lora_grouped"}
    assert len(CASES) == 38
