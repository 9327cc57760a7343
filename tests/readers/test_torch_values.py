"""Checkpoints that the real torch.save writes read back bit for bit, whatever their layout."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hfconvert.tensors.box import full

DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz),
    torch.float8_e8m0fnu,
]


def made(dtype: torch.dtype, count: int, seed: int = 0) -> torch.Tensor:
    """Random bits of a type; for booleans random values."""
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    size = torch.empty(0, dtype=dtype).element_size()
    return torch.randint(0, 256, (count * size,), generator=generator, dtype=torch.uint8).view(
        dtype
    )


@st.composite
def views(draw: st.DrawFn, base: torch.Tensor) -> torch.Tensor:
    """Any view of a base tensor that torch can make: offset, sizes, strides."""
    dims = draw(st.integers(0, 4))
    shape = [draw(st.integers(0 if dims else 1, 4)) for _ in range(dims)]
    strides = [draw(st.integers(0, 7)) for _ in range(dims)]
    reach = sum((size - 1) * step for size, step in zip(shape, strides, strict=True) if size)
    reach = reach if 0 not in shape else 0
    return base.as_strided(shape, strides, draw(st.integers(0, base.numel() - 1 - reach)))


@st.composite
def checkpoints(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    bases = [
        made(draw(st.sampled_from(DTYPES)), 120, seed) for seed in range(draw(st.integers(1, 3)))
    ]
    count = draw(st.integers(1, 6))
    return {
        f"layer.{index}.weight": draw(views(draw(st.sampled_from(bases)))) for index in range(count)
    }


@given(checkpoints(), st.integers(2, 5), st.booleans(), st.integers(1, 300))
@settings(max_examples=60)
def test_any_layout_of_any_type(
    kit: Any,
    checkpoint: dict[str, torch.Tensor],
    protocol: int,
    legacy: bool,
    limit: int,
) -> None:
    found = kit.open(kit.save(checkpoint, protocol=protocol, legacy=legacy))
    assert found.file.container == ("legacy" if legacy else "zip")
    assert list(found.tensors) == list(checkpoint)
    for name, tensor in checkpoint.items():
        lazy = found.tensors[name]
        assert lazy.spec.dtype.torch == str(tensor.dtype).removeprefix("torch.")
        assert lazy.spec.shape == tuple(tensor.shape)
        assert kit.values(lazy, limit) == kit.elsewhere(lazy) == kit.raw(tensor)
        assert kit.reads_what_it_needs(lazy, found.source)
    assert set(found.dangerous) == set()


def test_listing_reads_no_tensor_data(kit: Any) -> None:
    big = {f"w{index}": torch.full((70_000,), float(index)) for index in range(4)}
    for legacy in (False, True):
        found = kit.open(kit.save(big, legacy=legacy))
        held = [
            part for tensor in found.tensors.values() for part in tensor.needs(full(tensor.extent))
        ]
        inside = [
            (start, stop)
            for start, stop in found.source.reads
            for part in held
            if start < part.stop - 65_536 and stop > part.start + 65_536
        ]
        assert inside == []


def test_shared_storages_are_the_same_bytes(kit: Any) -> None:
    shared = torch.arange(12.0).reshape(3, 4)
    found = kit.open(kit.save({"a": shared, "b": shared, "rows": shared[1:], "t": shared.t()}))
    spans = {
        name: [(part.start, part.stop) for part in tensor.needs(full(tensor.extent))]
        for name, tensor in found.tensors.items()
    }
    assert spans["a"] == spans["b"] == spans["t"]
    assert spans["rows"] == [(spans["a"][0][0] + 16, spans["a"][0][1])]


def test_conjugated_and_negated_views(kit: Any) -> None:
    base = made(torch.complex64, 12).reshape(3, 4)
    checkpoint = {
        "conj": base.conj(),
        "conj.t": base.conj().t(),
        "negative": base.clone().conj().imag,
        "both": torch._neg_view(base.conj()),
        "integers": torch._neg_view(torch.tensor([1, -2, 0, -(1 << 62)])),
    }
    assert [tensor.is_conj() or tensor.is_neg() for tensor in checkpoint.values()] == [True] * 5
    found = kit.open(kit.save(checkpoint))
    for name, tensor in checkpoint.items():
        lazy = found.tensors[name]
        assert kit.values(lazy, 16) == kit.elsewhere(lazy) == kit.raw(tensor), name


def test_packed_pairs_of_float4(kit: Any) -> None:
    octets = torch.arange(6, dtype=torch.uint8).reshape(2, 3)
    found = kit.open(kit.save({"w": octets.view(torch.float4_e2m1fn_x2)}))
    lazy = found.tensors["w"]
    assert str(lazy.spec) == "F4 [2, 6]"
    assert lazy.extent == (6,)
    assert kit.values(lazy) == bytes(range(6))


def test_parameters_and_their_subclasses(kit: Any) -> None:
    parameter = torch.nn.Parameter(torch.arange(3.0))
    parameter.kind = "bias"  # type: ignore[attr-defined]  # this state makes another rebuilder of it
    found = kit.open(kit.save({"p": parameter, "q": torch.nn.Parameter(torch.ones(2))}))
    assert kit.values(found.tensors["p"]) == torch.arange(3.0).numpy().tobytes()
    assert found.file.stubbed == ()


@pytest.mark.parametrize("legacy", [False, True])
def test_a_lone_tensor_is_called_tensor(
    kit: Any,
    legacy: bool,
) -> None:
    found = kit.open(kit.save(torch.arange(4), legacy=legacy))
    assert list(found.tensors) == ["tensor"]
    assert kit.values(found.tensors["tensor"]) == torch.arange(4).numpy().tobytes()
    assert "no name" in found.found.findings[0].message


def test_storages_that_stand_alone_are_no_tensors(kit: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = kit.save({"s": torch.arange(4.0).untyped_storage(), "t": torch.ones(1)})
    found = kit.open(data)
    assert list(found.tensors) == ["t"]
    assert "s (StorageRef)" in found.found.findings[0].message


@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_small_values_in_the_pickle_itself_are_no_views_of_each_other(kit: Any, kind: str) -> None:
    arrays = {"a": np.arange(4.0), "b": np.arange(4.0) + 5}
    if kind == "array":
        data = kit.save(arrays)
    else:
        data = pickle.dumps({name: torch.from_numpy(array) for name, array in arrays.items()}, 2)
    tensors = kit.open(data).tensors
    places = {
        name: next(tensor.needs(full(tensor.extent))).source.name
        for name, tensor in tensors.items()
    }
    assert places["a"] != places["b"]
    for name, array in arrays.items():
        assert kit.values(tensors[name]) == array.tobytes()
