from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hfconvert.dtypes.cast import Cast
from hfconvert.planning.totals import Amount, Totals, count
from hfconvert.tensors.checkpoint import Checkpoint, found
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.source import LocalFile
from hfconvert.tensors.tally import Tally


@pytest.fixture
def view(tmp_path: Path) -> Any:
    """A view of 4-byte elements of a file of 400 bytes: start in elements, shape, strides."""
    path = tmp_path / "source"
    path.write_bytes(bytes(400))
    sources = {name: LocalFile.of(path, name) for name in ("one", "two")}

    def make(
        start: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        file: str = "one",
    ) -> Leaf:
        spec = TensorSpec(BY_CODE["F32"], shape)
        if strides is None:
            return Leaf.packed(spec, sources[file], 4 * start)
        return Leaf.strided(spec, sources[file], 4 * start, strides)

    return make


def totals(
    source: dict[str, Leaf], decided: Checkpoint | None = None, result: Checkpoint | None = None
) -> Totals:
    before = found(source)
    decided = decided or before
    return count(before, decided, result or decided, dropped=0, tied=0)


def test_what_is_kept_changes_nothing(view: Any) -> None:
    one = totals({"a": view(0, (10,)), "b": view(10, (5, 2))})
    assert one.source == one.result == {"F32": Amount(2, 20, 80)}
    assert (one.source_tensors, one.source_bytes, one.result_bytes) == (2, 80, 80)
    assert (one.unchanged, one.mapped, one.cast, one.causes) == (2, 0, 0, {})


def test_names_over_the_same_bytes_count_once(view: Any) -> None:
    source = {"a": view(0, (10,)), "b": view(0, (10,)), "other file": view(0, (10,), file="two")}
    kept = found({name: source[name] for name in ("a", "other file")})
    one = totals(source, kept)
    assert one.source == {"F32": Amount(2, 20, 80)}
    assert (one.source_tensors, one.result_tensors) == (3, 2)
    assert one.causes == {}


def test_what_is_left_out(view: Any) -> None:
    source = {"a": view(0, (10,)), "b": view(10, (3,))}
    one = totals(source, found({"a": source["a"]}))
    assert one.causes == {"left out": -12}


def test_views_that_share_bytes(view: Any) -> None:
    one = totals({"all": view(0, (10,)), "head": view(0, (8,)), "tail": view(4, (6,))})
    assert (one.source_bytes, one.result_bytes) == (40, 96)
    assert one.causes == {"views written apart": 56}
    assert totals({"wide": view(0, (3, 10), (0, 1))}).causes == {"views written apart": 80}


def test_gaps_between_the_elements_of_a_view(view: Any) -> None:
    one = totals({"column": view(0, (10,), (10,))})
    assert (one.source_bytes, one.result_bytes) == (91 * 4, 40)
    assert one.causes == {"gaps between views": -81 * 4}


def test_casts_and_steps(view: Any) -> None:
    source = {"a": view(0, (10,)), "b": view(10, (10,)), "c": view(20, (10,))}
    before = found(source)
    entries = dict(before.entries)
    entries["b"] = replace(entries["b"], steps=("rename x",))
    decided = before.with_entries(entries)
    cast = Cast(entries["a"].tensor, BY_CODE["BF16"], "a", Tally())
    result = decided.with_entries({**entries, "a": replace(entries["a"], tensor=cast)})
    one = count(before, decided, result, dropped=2, tied=3)
    assert list(one.result.items()) == [("F32", Amount(2, 20, 80)), ("BF16", Amount(1, 10, 20))]
    fates = (one.unchanged, one.mapped, one.cast, one.dropped, one.tied)
    assert fates == (1, 1, 1, 2, 3)
    assert one.causes == {"cast": -20}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), min_size=1, max_size=12), st.data()
)
def test_causes_make_up_the_difference(view: Any, places: Any, data: st.DataObject) -> None:
    source = {str(number): view(*place[:1], (place[1],)) for number, place in enumerate(places)}
    kept = data.draw(st.sets(st.sampled_from(sorted(source)), min_size=1))
    one = totals(source, found({name: source[name] for name in source if name in kept}))
    covered = np.zeros(100, bool)
    for start, length in places:
        covered[start : start + length] = True
    assert one.source_bytes == 4 * covered.sum()
    assert one.source_bytes + sum(one.causes.values()) == one.result_bytes
    assert one.result_bytes == sum(source[name].spec.nbytes for name in kept)
