"""Tensors that cannot be read as they are stay listed, with the reason; views are held to their storage."""

from __future__ import annotations

import pickle
import struct
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from hfconvert.errors import Exit, UserError
from hfconvert.pickles.values import ArrayRef, ArrayType, Global, StorageRef, TensorRef
from hfconvert.readers.torch_array import array_tensor
from hfconvert.readers.torch_tensor import lazy_tensor
from hfconvert.tensors.dtype import BY_TORCH
from hfconvert.tensors.unreadable import Quantized, Sparse, Unreadable

FLOAT = BY_TORCH["float32"]


def storage(source: Any, nbytes: int = 16, **fields: Any) -> StorageRef:
    return StorageRef("0", FLOAT, nbytes, "cpu", source, **fields)


def quantized(kind: str) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = torch.tensor([[0.0, 0.5], [1.0, -0.25]])
        if kind == "per_tensor":
            return torch.quantize_per_tensor(plain, 0.125, 3, torch.qint8)
        scales, zeros = torch.tensor([0.5, 0.25]), torch.tensor([1, 2])
        return torch.quantize_per_channel(plain, scales, zeros, 0, torch.quint8)


def save(kit: Any, value: Any) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bytes(kit.save(value))


EXOTIC: dict[str, tuple[Callable[[], Any], str]] = {
    "meta": (lambda: torch.empty(2, 3, device="meta"), "meta tensor"),
    "complex128": (lambda: torch.ones(2, dtype=torch.complex128), "complex128"),
    "complex32": (lambda: torch.ones(2, dtype=torch.complex32), "complex32"),
    "coo": (lambda: torch.eye(2).to_sparse(), "sparse"),
    "csr": (lambda: torch.eye(2).to_sparse_csr(), "sparse"),
    "quantised": (lambda: quantized("per_tensor"), "quantised"),
    "by channel": (lambda: quantized("per_channel"), "quantised"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]), "ragged"),
}


@pytest.mark.parametrize("case", EXOTIC)
def test_other_kinds_are_listed_and_refused_when_read(kit: Any, case: str) -> None:
    make, match = EXOTIC[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = make()
    found = kit.open(save(kit, {"w": torch.ones(2), "x": made}))
    assert list(found.tensors) == ["w", "x"]
    assert kit.values(found.tensors["w"]) == kit.raw(torch.ones(2))
    lazy = found.tensors["x"]
    assert isinstance(lazy, Unreadable)
    with pytest.raises(UserError, match=match) as caught:
        kit.values(lazy)
    assert caught.value.exit is Exit.SOURCE
    assert caught.value.problems[0].subject == "x"
    if case != "nested":
        assert lazy.spec.shape == tuple(made.shape)
    assert list(lazy.needs(((0, 1),))) == []
    assert list(lazy.where(())) == []


def test_a_sparse_tensor_tells_its_parts(kit: Any) -> None:
    lazy = kit.open(save(kit, {"x": torch.tensor([[0.0, 5.0], [7.0, 0.0]]).to_sparse()})).tensors[
        "x"
    ]
    assert isinstance(lazy.detail, Sparse)
    assert lazy.detail.layout == "torch.sparse_coo"
    assert kit.values(lazy.detail.values) == kit.raw(torch.tensor([5.0, 7.0]))
    assert [kit.values(part) for part in lazy.detail.indices] == [
        kit.raw(torch.tensor([[0, 1], [1, 0]]))
    ]


def test_a_compressed_sparse_tensor_tells_its_parts(kit: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = torch.tensor([[0.0, 5.0], [7.0, 0.0]]).to_sparse_csr()
    detail = kit.open(save(kit, {"x": made})).tensors["x"].detail
    assert isinstance(detail, Sparse)
    assert [kit.values(part) for part in (*detail.indices, detail.values)] == [
        kit.raw(made.crow_indices()),
        kit.raw(made.col_indices()),
        kit.raw(made.values()),
    ]


def test_a_quantised_tensor_tells_its_scale(kit: Any) -> None:
    made = quantized("per_tensor")
    detail = kit.open(save(kit, {"x": made})).tensors["x"].detail
    assert isinstance(detail, Quantized)
    assert (detail.scheme, detail.scale, detail.zero_point) == ("per_tensor_affine", 0.125, 3)


def test_a_tensor_quantised_by_channel_tells_its_scales(kit: Any) -> None:
    detail = kit.open(save(kit, {"x": quantized("per_channel")})).tensors["x"].detail
    assert isinstance(detail, Quantized)
    assert (detail.scheme, detail.axis) == ("per_channel_affine", 0)
    assert kit.values(detail.scale) == kit.raw(torch.tensor([0.5, 0.25], dtype=torch.float64))


OUTSIDE = {
    "too long": ((5,), (1,), 0),
    "offset": ((1,), (1,), 4),
    "stride": ((2,), (4,), 0),
    "both": ((2, 2), (1, 2), 1),
    "far": ((1 << 40, 1), (1 << 20, 1), 0),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_a_view_outside_of_its_storage(kit: Any, case: str) -> None:
    shape, strides, offset = OUTSIDE[case]
    ref = TensorRef("dense", FLOAT, shape, strides, offset, storage(kit.source(bytes(16))))
    lazy = lazy_tensor(ref, "w", "f")
    assert isinstance(lazy, Unreadable)
    assert "of a storage of 4" in lazy.problem.what
    assert lazy.spec.shape == shape


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((4,), (1,), 0),
        ((1,), (1,), 3),
        ((2, 2), (1, 2), 0),
        ((0, 9), (9, 1), 3),
        ((3,), (0,), 3),
        ((), (), 3),
    ],
)
def test_a_view_up_to_the_last_element(
    kit: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    data = struct.pack("<4f", 0, 1, 2, 3)
    ref = TensorRef("dense", FLOAT, shape, strides, offset, storage(kit.source(data)))
    expected = torch.arange(4.0).as_strided(shape, strides, offset)
    assert kit.values(lazy_tensor(ref, "w", "f")) == kit.raw(expected)


def test_a_storage_that_is_not_there(kit: Any) -> None:
    ref = TensorRef(
        "dense", FLOAT, (1,), (1,), 0, StorageRef("0", FLOAT, 4, "cpu", fault="it is gone")
    )
    lazy = lazy_tensor(ref, "w", "f")
    assert isinstance(lazy, Unreadable)
    assert lazy.problem.what == "it is gone"


PARTS: tuple[Any, ...] = (0x1950A86A20F9469CFC6C, 1001, {})
STORAGE = (
    b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x001X\x03\x00\x00\x00cpuK\x04NtQ"
)
NEGATIVE = {
    "offset": b"J\xff\xff\xff\xffK\x01\x85K\x01\x85",
    "size": b"K\x00J\xff\xff\xff\xff\x85K\x01\x85",
    "stride": b"K\x00K\x01\x85J\xff\xff\xff\xff\x85",
    "no numbers": b"NK\x01\x85K\x01\x85",
    "sizes that are none": b"K\x00]K\x01\x85",
    "more sizes than strides": b"K\x00K\x01K\x01\x86K\x01\x85",
    "absurd size": b"K\x00\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x85K\x01\x85",
    "many dimensions": b"K\x00(" + b"K\x01" * 40 + b"t(" + b"K\x01" * 40 + b"t",
    "booleans": b"\x89\x88\x85\x88\x85",
}


@pytest.mark.parametrize("case", NEGATIVE)
def test_numbers_that_no_tensor_has(kit: Any, case: str) -> None:
    """What does not describe a tensor stands where a tensor should be: it is named, and never read."""
    front = b"".join(pickle.dumps(part, 2) for part in PARTS)
    tree = (
        b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor\n("
        + STORAGE
        + NEGATIVE[case]
        + b"tRs."
    )
    found = kit.open(front + tree + pickle.dumps(["1"], 2) + struct.pack("<q4f", 4, 1, 2, 3, 4))
    lazy = found.tensors["w"]
    assert isinstance(lazy, Unreadable)
    with pytest.raises(UserError, match=r"object of torch\._utils\._rebuild_tensor"):
        kit.values(lazy)


def test_arrays_that_do_not_fit(kit: Any) -> None:
    for array in (
        ArrayRef((2,), ArrayType("f4"), data=bytes(7)),
        ArrayRef((2,), ArrayType("M8"), data=bytes(16)),
        ArrayRef((-2,), ArrayType("f4"), data=bytes(8)),
        ArrayRef("x", ArrayType("f4"), data=bytes(8)),  # type: ignore[arg-type]  # as a hostile pickle says
        ArrayRef((2,), None, data=bytes(8)),
        ArrayRef((2,), ArrayType("f4"), data=["a", "b"]),
    ):
        lazy = array_tensor(array, "w", "f")
        assert isinstance(lazy, Unreadable)
        assert "numpy array" in lazy.problem.what


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("code", ["<f4", ">f4", "<i8", "|u1", "|b1", "<c8", ">c8", ">i2"])
def test_arrays_of_every_type(kit: Any, code: str, order: Any) -> None:
    made = np.asarray(np.arange(6).reshape(2, 3).astype(code), order=order)
    array = ArrayRef((2, 3), ArrayType(code[1:], code[0]), order == "F", made.tobytes(order))
    expected = made.astype(made.dtype.newbyteorder("<")).tobytes()
    lazy = array_tensor(array, "w", "f")
    assert kit.values(lazy, 8) == kit.elsewhere(lazy) == expected


def test_a_wrapper_is_described_by_its_class() -> None:
    ref = TensorRef("wrapper", FLOAT, (2,), (1,), detail=(Global("torchao", "Q"), None))
    lazy = lazy_tensor(ref, "w", "f")
    assert isinstance(lazy, Unreadable)
    assert "it is a torchao.Q" in lazy.problem.what
    assert lazy.detail is ref
