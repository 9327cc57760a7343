from __future__ import annotations

import pytest

from hfconvert.recipe.positions import Mark, Positions, file_mark


@pytest.fixture
def positions() -> Positions:
    found = Positions()
    found.add((), file_mark("r.yaml", 1, 1), file_mark("r.yaml", 1, 1))
    found.add(("a",), file_mark("r.yaml", 2, 1), file_mark("r.yaml", 2, 4))
    found.add(("a", 0), file_mark("r.yaml", 3, 3), file_mark("r.yaml", 3, 3))
    return found


def test_a_mark_reads_as_editors_expect() -> None:
    assert str(file_mark("recipe.yaml", 12, 7)) == "recipe.yaml:12:7"


def test_marks_order_by_line_then_column_and_the_command_line_comes_first() -> None:
    marks = [
        file_mark("r", 10, 1),
        file_mark("r", 2, 9),
        Mark(0, 0, "--set a"),
        file_mark("r", 2, 1),
    ]
    assert [str(mark) for mark in sorted(marks)] == ["--set a", "r:2:1", "r:2:9", "r:10:1"]


def test_keys_and_values_have_places_of_their_own(positions: Positions) -> None:
    assert str(positions.key(("a",))) == "r.yaml:2:1"
    assert str(positions.value(("a",))) == "r.yaml:2:4"


def test_what_is_not_written_falls_back_to_what_is_around_it(positions: Positions) -> None:
    assert str(positions.key(("a", 0, "x", "y"))) == "r.yaml:3:3"
    assert str(positions.value(("b", "c"))) == "r.yaml:1:1"


def test_present_skips_the_parts_that_the_document_lacks(positions: Positions) -> None:
    assert positions.present(("a", "is:list", 0, "is:text")) == ("a", 0)
    assert positions.present(("missing",)) == ()


def test_without_and_below_split_the_paths(positions: Positions) -> None:
    assert set(positions.without(("a",)).values) == {()}
    assert set(positions.below(("a",)).keys) == {(), (0,)}
