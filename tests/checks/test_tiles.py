from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.checks import blocks as module
from hfconvert.checks.blocks import tiles
from hfconvert.checks.tensors import compare_file
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.header import write_header
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf, row_major
from hfconvert.tensors.source import LocalFile

EXTENTS = st.lists(st.integers(0, 7), min_size=1, max_size=4).map(tuple)


@given(EXTENTS, st.data(), st.sampled_from([1, 2, 8]), st.integers(1, 300))
def test_tiles_cover_every_element_once(
    extent: tuple[int, ...], data: st.DataObject, unit: int, room: int
) -> None:
    fast = data.draw(st.integers(0, len(extent) - 1))
    covered = np.zeros(extent, np.int64)
    with mock.patch.object(module, "ROWS_BYTES", room):
        for mesh in tiles(extent, unit, fast):
            assert prod(map(len, mesh)) * unit <= max(room, unit)
            covered[np.ix_(*mesh)] += 1
    assert (covered == 1).all()


def test_a_transposed_matrix_is_compared_in_squares() -> None:
    mesh = next(tiles((10_000, 10_000), 4, 0))
    assert [len(axis) for axis in mesh] == [222, 221]


def test_short_axes_leave_room_for_the_others() -> None:
    mesh = next(tiles((100_000, 3), 4, 0))
    assert [len(axis) for axis in mesh] == [16_384, 3]
    channels_last = next(tiles((64, 32, 300, 100), 4, 1))
    assert [len(axis) for axis in channels_last] == [1, 32, 15, 100]


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple),
    st.data(),
    st.sampled_from(["U8", "BF16", "F32"]),
    st.sampled_from([16, 64, 3 << 16]),
)
def test_a_flipped_bit_is_found_where_it_is_whatever_the_order_of_the_source(
    tmp_path_factory: pytest.TempPathFactory,
    shape: tuple[int, ...],
    data: st.DataObject,
    code: str,
    room: int,
) -> None:
    folder = tmp_path_factory.mktemp("tiles")
    tensor, values = _permuted(folder, shape, data.draw(st.permutations(range(len(shape)))), code)
    content = bytearray(write_header([("w", tensor.spec)], {}) + values)
    path = folder / "w.safetensors"
    path.write_bytes(content)
    with mock.patch.object(module, "ROWS_BYTES", room):
        assert compare_file(path, path.name, {"w": tensor}).differences == ()
    position = data.draw(st.integers(0, len(values) - 1))
    content[len(content) - len(values) + position] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    at = np.unravel_index(position // tensor.spec.dtype.itemsize, shape)
    with mock.patch.object(module, "ROWS_BYTES", room):
        found = compare_file(path, path.name, {"w": tensor}).differences
    assert found == (f"w differs first at {tuple(map(int, at))}",)


def _permuted(folder: Path, shape: tuple[int, ...], order: Any, code: str) -> tuple[Leaf, bytes]:
    """A tensor whose axes lie in the source in that order, and its packed values."""
    dtype = BY_CODE[code]
    stored = tuple(shape[axis] for axis in order)
    packed = np.random.default_rng(3).bytes(prod(shape) * dtype.itemsize)
    (folder / "source").write_bytes(b"head" + packed)
    inner = row_major(stored)
    strides = tuple(inner[order.index(axis)] for axis in range(len(shape)))
    source = LocalFile.of(folder / "source")
    tensor = Leaf.strided(TensorSpec(dtype, shape), source, 4, strides)
    view = np.frombuffer(packed, dtype.raw).reshape(stored).transpose(np.argsort(order))
    return tensor, view.tobytes()
