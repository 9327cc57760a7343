"""Section B and the first finding of section S: layout in memory is no part of a value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

State = dict[str, torch.Tensor]
Convert = Callable[..., Any]
Store = Callable[..., Path]


def counted(*shape: int) -> torch.Tensor:
    size = int(torch.tensor(shape).prod())
    return torch.arange(1.0, size + 1).view(shape)


LAYOUTS = {
    "channels last": counted(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "channels last 3d": counted(2, 3, 2, 4, 4).to(memory_format=torch.channels_last_3d),
    "column": counted(5, 7)[:, 3],
    "diagonal": counted(6, 6).diagonal(),
    "empty": torch.empty(0, 4),
    "expanded": counted(1, 4).expand(3, 4),
    "expanded scalar": torch.tensor(3.0).expand(2, 2),
    "flipped": counted(9).flip(0),
    "narrowed": counted(8, 9)[2:5, 1:7],
    "one row of many": counted(1000, 3)[500],
    "overlapping windows": counted(10).as_strided((4, 4), (2, 1)),
    "permuted": counted(2, 3, 4, 5).permute(3, 1, 0, 2),
    "steps": counted(30)[::3],
    "sum of transposes": counted(4, 3).t() + counted(4, 3).t(),
    "transposed": counted(4, 3).t(),
    "zero dimensions": torch.tensor(2.5),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_13_14_any_layout_is_packed(name: str, store: Store, convert: Convert) -> None:
    state = {"x": LAYOUTS[name], "w": torch.ones(2)}
    done = convert(store({"pytorch_model.bin": state}))
    assert done.code == 0
    assert done.holds(state)
    assert done.tensors()["x"].is_contiguous()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_13_14_and_cast_in_the_same_go(store: Store, convert: Convert, dtype: torch.dtype) -> None:
    source = store({"pytorch_model.bin": dict(LAYOUTS)})
    done = convert(source, dtype=str(dtype).removeprefix("torch."))
    assert done.holds({name: tensor.to(dtype) for name, tensor in LAYOUTS.items()})


def test_13_14_larger_than_a_block(store: Store, convert: Convert) -> None:
    """Blocks of the writer and of the check cut through rows, planes and gaps."""
    wide = torch.randn(700, 900)
    state = {
        "transposed": wide.t(),
        "columns": wide[:, 100:800],
        "channels last": torch.randn(9, 64, 33, 31).to(memory_format=torch.channels_last),
        "expanded": torch.randn(1, 1200).expand(500, 1200),
    }
    done = convert(store({"pytorch_model.bin": state}), validate={"tensors": "full"})
    assert done.code == 0
    assert done.holds(state)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_nan_payloads_and_signed_zeros_stay(
    store: Store, convert: Convert, dtype: torch.dtype
) -> None:
    """A copy moves bits; nothing of a NaN is made canonical."""
    width = torch.finfo(dtype).bits
    integers = {16: torch.int16, 32: torch.int32, 64: torch.int64}[width]
    patterns = torch.arange(-64, 64, dtype=integers) << (width - 9)
    patterns[::2] += 1
    tensor = patterns.view(dtype)
    done = convert(store({"pytorch_model.bin": {"x": tensor}}))
    assert torch.equal(bits(done.tensors()["x"]), bits(tensor))


def test_s1_lazy_conjugates_and_negatives_are_resolved(store: Store, convert: Convert) -> None:
    values = torch.complex(counted(2, 3), -counted(2, 3))
    state = {
        "plain": values,
        "conj": values.clone().conj(),
        "neg": values.clone().conj().imag,
        "transposed conj": values.clone().t().conj(),
    }
    assert state["conj"].is_conj()
    assert state["neg"].is_neg()
    done = convert(store({"pytorch_model.bin": state}))
    assert done.code == 0
    expected = {name: tensor.resolve_conj().resolve_neg() for name, tensor in state.items()}
    assert done.holds(expected)
    assert done.check("tensors")["status"] == "pass"


def test_s5_names_that_a_header_cannot_hold(store: Store, convert: Convert) -> None:
    state = {"__metadata__": torch.ones(2), "w": torch.ones(2)}
    source = store({"pytorch_model.bin": state})
    done = convert(source)
    assert done.code == 2
    assert "__metadata__" in done.findings("error")
    renamed = convert(source, key_map=[{"rename": {"__metadata__": "meta"}}], output="renamed")
    assert renamed.holds({"meta": state["__metadata__"], "w": state["w"]})


def test_s5_an_empty_name_has_to_be_given_another(store: Store, convert: Convert) -> None:
    """safetensors would take it; no module has such a parameter, and no pattern could name it."""
    source = store({"model.safetensors": {"": torch.ones(2), "w": torch.zeros(2)}})
    done = convert(source)
    assert done.code == 2
    assert "a name that no file can hold" in done.findings("error")
    renamed = convert(source, key_map=[{"add_prefix": "x."}], output="renamed")
    assert renamed.holds({"x.": torch.ones(2), "x.w": torch.zeros(2)})


def test_s6_a_single_file_is_never_left_beside_an_index(
    tiny: State, store: Store, sharded: Callable[..., Any], convert: Convert
) -> None:
    """transformers reads the single file and ignores the index; here one layout comes out."""
    files = sharded(tiny, 3, "model", "safetensors")
    source = store({**files, "model.safetensors": {"zero": torch.zeros(1)}})
    done = convert(source, options=["--set", "output.max_shard_size=8KB"])
    assert done.holds(tiny)
    assert "model.safetensors" not in done.weights()
    assert "model.safetensors.index.json" in done.weights()
