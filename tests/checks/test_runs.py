from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.checks import blocks, disk, runs
from hfconvert.checks.blocks import wide_meshes
from hfconvert.checks.runs import runs_of
from hfconvert.checks.tensors import compare_file
from hfconvert.dtypes.cast import Cast
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.header import write_header
from hfconvert.tensors.lazy import LazyTensor, Place, RawArray, TensorSpec
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.simplify import side_by_side
from hfconvert.tensors.source import LocalFile
from hfconvert.tensors.tally import Tally

TYPES: dict[str, Any] = {
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E5M2": ml_dtypes.float8_e5m2,
}
shapes = st.lists(st.integers(1, 9), max_size=4).map(tuple)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every limit is reached within a few hundred elements."""
    monkeypatch.setattr(runs, "SLICE_BYTES", 28)
    monkeypatch.setattr(disk, "STRETCH_BYTES", 96)
    monkeypatch.setattr(disk, "FIRST_BYTES", 40)
    monkeypatch.setattr(blocks, "WIDE_BYTES", 1200)
    monkeypatch.setattr(blocks, "ROWS_BYTES", 60)


def written_as(folder: Path, tensor: LazyTensor, content: bytes) -> Path:
    path = folder / "w.safetensors"
    path.write_bytes(write_header([("w", tensor.spec)], {}) + content)
    return path


def differences(path: Path, tensor: LazyTensor) -> tuple[str, ...]:
    return compare_file(path, path.name, {"w": tensor}).differences


@given(shapes, st.sampled_from(["F32", "F16"]), st.sampled_from(list(TYPES)), st.data())
def test_the_first_wrong_value_is_found_and_no_right_one(
    tmp_path_factory: pytest.TempPathFactory,
    shape: tuple[int, ...],
    before: str,
    after: str,
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    values = np.random.default_rng(prod(shape)).standard_normal(shape).astype(TYPES[before])
    (folder / "source").write_bytes(b"head" + values.tobytes())
    leaf = Leaf.packed(TensorSpec(BY_CODE[before], shape), LocalFile.of(folder / "source"), 4)
    tensor = leaf if before == after else Cast(leaf, BY_CODE[after], "w", Tally())
    result = values.astype(np.float32).astype(TYPES[after]).view(BY_CODE[after].raw).reshape(-1)
    assert differences(written_as(folder, tensor, result.tobytes()), tensor) == ()
    wrong = data.draw(st.sets(st.integers(0, prod(shape) - 1), min_size=1, max_size=3))
    result[list(wrong)] ^= result.dtype.type(1)
    at = tuple(map(int, np.unravel_index(min(wrong), shape)))
    found = differences(written_as(folder, tensor, result.tobytes()), tensor)
    assert found == (f"w differs first at {at}",)


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=5), st.integers(0, 1), st.integers(0, 10**6)
)
def test_joined_tensors_are_compared_where_each_of_them_lies(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], dim: int, position: int
) -> None:
    folder = tmp_path_factory.mktemp("joined")
    random = np.random.default_rng(len(sizes))
    shapes = [(size, 6) if dim == 0 else (6, size) for size in sizes]
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    (folder / "source").write_bytes(b"".join(array.tobytes() for array in arrays))
    source, start, parts = LocalFile.of(folder / "source"), 0, []
    for array in arrays:
        parts.append(Leaf.packed(TensorSpec(BY_CODE["F32"], array.shape), source, start))
        start += array.nbytes
    tensor = side_by_side(parts, dim)
    result = np.concatenate(arrays, dim)
    assert differences(written_as(folder, tensor, result.tobytes()), tensor) == ()
    at = np.unravel_index(position % result.size, result.shape)
    result[at] += 1
    found = differences(written_as(folder, tensor, result.tobytes()), tensor)
    assert found == (f"w differs first at {tuple(map(int, at))}",)


def ten_rows(recorder: Callable[[bytes], Any]) -> tuple[RawArray, Any, Leaf]:
    """Sixty values, the source that they lie in, and the tensor of them."""
    values = np.arange(60, dtype=np.float32)
    source = recorder(values.tobytes())
    return values, source, Leaf.packed(TensorSpec(BY_CODE["F32"], (10, 6)), source, 0)


def test_values_in_a_row_are_read_in_slices(
    recorder: Callable[[bytes], Any], tmp_path: Path
) -> None:
    values, source, tensor = ten_rows(recorder)
    assert differences(written_as(tmp_path, tensor, values.tobytes()), tensor) == ()
    assert [start for start, _ in source.reads] == [
        stop for _, stop in [(0, 0), *source.reads[:-1]]
    ]
    assert max(stop - start for start, stop in source.reads) == 28
    assert source.reads[-1][1] == 240


def test_reading_stops_at_the_first_difference(
    recorder: Callable[[bytes], Any], tmp_path: Path
) -> None:
    values, source, tensor = ten_rows(recorder)
    other = values.copy()
    other[3] = -1
    found = differences(written_as(tmp_path, tensor, other.tobytes()), tensor)
    assert found == ("w differs first at (0, 3)",)
    assert source.reads == [(0, 28)]


def _place(first: int, count: int, select: int = 0) -> Place:
    steps = (np.arange(first, first + count),)
    return Place(
        mock.sentinel.source, BY_CODE["U8"], 0, 1, steps, (np.arange(select, select + count),)
    )


def test_places_with_a_gap_or_an_overlap_are_no_runs() -> None:
    (mesh,) = wide_meshes((10,), 1)
    whole = runs_of([_place(5, 4, 6), _place(0, 6)], mesh, (10,))
    assert whole is not None
    assert [(run.start, run.first, run.size) for run in whole] == [(0, 0, 6), (5, 6, 4)]
    assert runs_of([_place(0, 6), _place(0, 3, 6)], mesh, (10,)) is None  # the last is nowhere
    assert runs_of([_place(0, 6), _place(0, 5, 4)], mesh, (10,)) is None  # two values for some
    assert runs_of([_place(0, 6), _place(0, 3, 7)], mesh, (10,)) is None  # one between is nowhere
    assert runs_of([], mesh, (10,)) is None
