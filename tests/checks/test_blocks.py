from __future__ import annotations

from math import prod
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.checks import blocks

extents = st.lists(st.integers(0, 9), max_size=4).map(tuple)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "ROWS_BYTES", 24)


@given(extents, st.sampled_from([1, 2, 8]))
def test_meshes_cover_every_element_once_in_order(extent: tuple[int, ...], unit: int) -> None:
    everything = np.arange(prod(extent)).reshape(extent)
    seen = [everything[np.ix_(*mesh)].reshape(-1) for mesh in blocks.meshes(extent, unit)]
    assert np.array_equal(np.concatenate([np.empty(0, int), *seen]), everything.reshape(-1))


@given(extents, st.sampled_from([1, 2, 8]))
def test_a_mesh_is_found_by_its_number(extent: tuple[int, ...], unit: int) -> None:
    expected = list(blocks.meshes(extent, unit))
    assert blocks.mesh_count(extent, unit) == len(expected)
    for number, mesh in enumerate(expected):
        found = blocks.mesh_at(extent, unit, number)
        assert all(np.array_equal(a, b) for a, b in zip(found, mesh, strict=True))


@given(extents, st.sampled_from([1, 2, 8]))
def test_a_mesh_is_one_run_from_its_start(extent: tuple[int, ...], unit: int) -> None:
    everything = np.arange(prod(extent)).reshape(extent)
    for mesh in blocks.meshes(extent, unit):
        part = everything[np.ix_(*mesh)].reshape(-1)
        start = blocks.start_of(mesh, extent)
        assert np.array_equal(part, np.arange(start, start + part.size))
        assert part.size * unit <= max(24, unit)


@given(extents, st.sampled_from([1, 2, 8]))
def test_wide_meshes_cover_every_element_once_in_order(extent: tuple[int, ...], unit: int) -> None:
    everything = np.arange(prod(extent)).reshape(extent)
    with mock.patch.multiple(blocks, WIDE_BYTES=90, LONGEST=5):
        wide = list(blocks.wide_meshes(extent, unit))
    seen = [everything[np.ix_(*mesh)].reshape(-1) for mesh in wide]
    assert np.array_equal(np.concatenate([np.empty(0, int), *seen]), everything.reshape(-1))
    assert all(len(axis) <= 5 for mesh in wide for axis in mesh)


@given(extents, st.sampled_from([1, 2, 8]))
def test_a_wide_mesh_is_cut_into_small_ones(extent: tuple[int, ...], unit: int) -> None:
    everything = np.arange(prod(extent)).reshape(extent)
    for mesh in blocks.wide_meshes(extent, unit):
        parts = [everything[np.ix_(*part)].reshape(-1) for part in blocks.cut(mesh, unit)]
        assert np.array_equal(np.concatenate(parts), everything[np.ix_(*mesh)].reshape(-1))
        assert all(part.size * unit <= max(24, unit) for part in parts)


def test_the_box_of_a_mesh() -> None:
    mesh = (np.arange(2, 4), np.arange(0, 7))
    assert blocks.box_of(mesh) == ((2, 4), (0, 7))
