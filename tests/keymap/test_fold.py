from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.keymap.fold import fold, listed, unfold


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], []),
        (["a.b"], ["a.b"]),
        (
            [f"layers.{i}.mlp.up_proj.weight" for i in range(32)],
            ["layers.{0..31}.mlp.up_proj.weight"],
        ),
        ([f"h.{i}.w" for i in (7, 0, 1, 2, 3)], ["h.{0..3,7}.w"]),
        (["h.1.w", "h.2.w"], ["h.{1..2}.w"]),
        (["h.1.w", "h.3.w"], ["h.{1,3}.w"]),
        (["h.5.w"], ["h.5.w"]),
        (
            [f"l.{i}.experts.{j}.w{k}" for i in range(3) for j in range(4) for k in (1, 2, 3)],
            ["l.{0..2}.experts.{0..3}.w{1..3}"],
        ),
        (
            ["l.0.e.0", "l.0.e.1", "l.1.e.0", "l.1.e.1", "l.2.e.0"],
            ["l.{0..1}.e.{0..1}", "l.2.e.0"],
        ),
        (["rank.00", "rank.01"], ["rank.00", "rank.01"]),
        (["a{3}.1", "a{3}.2"], ["a{{3}}.{1..2}"]),
        (["b.0", "a.0", "b.1"], ["b.{0..1}", "a.0"]),
        (["a.0", "a.0"], ["a.0"]),
    ],
)
def test_numbers_fold(names: list[str], expected: list[str]) -> None:
    assert fold(names) == expected


NAMES = st.lists(
    st.lists(st.sampled_from(["a", ".", "0", "1", "2", "9", "{", "}", "..", ","]), max_size=6).map(
        "".join
    )
    | st.text(max_size=6)
    | st.builds("l.{}.e{}.w".format, st.integers(0, 4), st.integers(0, 4)),
    max_size=30,
)


@given(NAMES)
def test_unfolding_gives_exactly_the_names_back(names: list[str]) -> None:
    unfolded = list(unfold(fold(names)))
    assert set(unfolded) == set(names)
    assert len(unfolded) == len(set(names))


def test_numbers_of_any_length_are_no_trouble() -> None:
    name = f"a.{'7' * 10_000}"
    assert fold([name, "a.1"]) == [name, "a.1"]
    assert list(unfold([name])) == [name]


def test_a_hundred_thousand_names_fold_to_one_line() -> None:
    names = [f"layers.{i}.experts.{j}.w" for i in range(100) for j in range(1000)]
    assert fold(names) == ["layers.{0..99}.experts.{0..999}.w"]


def test_a_list_for_a_message_says_what_it_leaves_out() -> None:
    assert listed(["a.0", "a.1", "b"], 8) == "`a.{0..1}`, `b`"
    assert listed(["a", "b", "c"], 2) == "`a`, `b` and 1 more"
    assert listed(["a\x1b[2J"], 2) == "`a\\x1b[2J`"
