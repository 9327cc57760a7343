"""Swapped, conjugated and negated bits: `fill` and `where` come to the same values by different ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.readers.torch_rewritten import Rewritten
from hfconvert.tensors.dtype import BY_TORCH
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf

TYPES = {
    "float16": "f2",
    "float32": "f4",
    "float64": "f8",
    "complex64": "c8",
    "int8": "i1",
    "int16": "i2",
    "int32": "i4",
    "int64": "i8",
    "uint8": "u1",
}


@given(
    st.sampled_from(sorted(TYPES)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.binary(min_size=48, max_size=48),
)
def test_both_ways_agree_with_numpy(
    kit: Any, name: str, swapped: bool, conj: bool, neg: bool, data: bytes
) -> None:
    dtype = BY_TORCH[name]
    columns = 24 // dtype.itemsize
    spec = TensorSpec(dtype, (columns, 2))
    leaf = Leaf.strided(spec, kit.source(data), 0, (1, columns))
    lazy = Rewritten(leaf, swapped=swapped, conj=conj, neg=neg)
    plain = np.frombuffer(data, (">" if swapped else "<") + TYPES[name]).reshape(2, columns).T
    values = plain.astype(plain.dtype.newbyteorder("<"))
    bits = np.ascontiguousarray(values).view(np.uint8).reshape(columns, 2, -1).copy()
    if conj and dtype.kind == "complex":
        bits[..., -1] ^= 0x80
    if neg and dtype.kind in ("float", "complex"):
        bits[..., -1] ^= 0x80
        if dtype.kind == "complex":
            bits[..., 3] ^= 0x80
    if neg and dtype.kind == "int":
        whole = bits.reshape(-1).view(f"<i{dtype.itemsize}")
        np.negative(whole, out=whole)
    assert kit.values(lazy, dtype.itemsize * 2) == bits.tobytes()
    assert kit.elsewhere(lazy) == bits.tobytes()


def test_it_is_as_its_inner_tensor(kit: Any) -> None:
    leaf = Leaf.strided(TensorSpec(BY_TORCH["int32"], (2, 3)), kit.source(bytes(24)), 0, (1, 2))
    lazy = Rewritten(leaf, swapped=True)
    assert (lazy.spec, lazy.extent, lazy.grain, lazy.scratch) == (
        leaf.spec,
        leaf.extent,
        leaf.grain,
        leaf.scratch,
    )
    box = ((0, 2), (0, 3))
    assert list(lazy.needs(box)) == list(leaf.needs(box))


@pytest.mark.parametrize("flag", ["swapped", "neg"])
def test_part_of_a_strided_block(kit: Any, flag: Any) -> None:
    """Rewriting happens in the caller's array, which may be strided."""
    data = np.arange(12, dtype="<u2")
    leaf = Leaf.packed(TensorSpec(BY_TORCH["uint16"], (3, 4)), kit.source(data.tobytes()), 0)
    lazy = Rewritten(leaf, **{flag: True})
    out = np.full((3, 8), 7, "<u2")
    lazy.fill(out[1:3, ::2], ((1, 3), (0, 4)))
    part = data.reshape(3, 4)[1:3]
    expected = part.byteswap() if flag == "swapped" else (0 - part).astype("<u2")
    assert np.array_equal(out[1:3, ::2], expected)
    assert (out[0] == 7).all()
    assert (out[:, 1::2] == 7).all()


def test_where_can_be_staged(kit: Any) -> None:
    leaf = Leaf.packed(TensorSpec(BY_TORCH["int16"], (4,)), kit.source(bytes(8), "name.pt"), 0)
    (place,) = Rewritten(leaf, neg=True).where((np.arange(4),))
    place.source.stage([(0, 8)])
    assert (place.source.name, place.source.size) == ("name.pt", 8)
