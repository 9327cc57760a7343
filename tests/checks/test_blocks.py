from __future__ import annotations

from math import prod

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


def test_the_box_of_a_mesh() -> None:
    mesh = (np.arange(2, 4), np.arange(0, 7))
    assert blocks.box_of(mesh) == ((2, 4), (0, 7))
