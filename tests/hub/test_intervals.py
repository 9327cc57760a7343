from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hfconvert.hub.intervals import Intervals, merged, pieces

RANGE = st.tuples(st.integers(0, 60), st.integers(0, 60))


@given(st.lists(RANGE), RANGE)
def test_intervals_are_the_set_of_their_bytes(
    added: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    intervals, held = Intervals(), set[int]()
    for start, stop in added:
        intervals.add(start, stop)
        held |= set(range(start, stop))
    found = list(intervals)
    assert {byte for start, stop in found for byte in range(start, stop)} == held
    assert all(a[1] < b[0] for a, b in itertools.pairwise(found))
    assert intervals.total == len(held)
    missing = intervals.missing(*asked)
    wanted = set(range(*asked)) - held
    assert [byte for start, stop in missing for byte in range(start, stop)] == sorted(wanted)


@given(st.lists(RANGE), st.integers(0, 10))
def test_merged_ranges_cover_the_same_and_are_far_apart(
    ranges: list[tuple[int, int]], gap: int
) -> None:
    found = merged(ranges, gap)
    covered = {byte for start, stop in ranges for byte in range(start, stop)}
    assert covered <= {byte for start, stop in found for byte in range(start, stop)}
    assert all(b[0] - a[1] > gap for a, b in itertools.pairwise(found))
    assert all({start, stop - 1} <= covered for start, stop in found)


@given(st.lists(RANGE), st.integers(1, 20))
def test_pieces_are_the_same_bytes_cut(ranges: list[tuple[int, int]], largest: int) -> None:
    cut = pieces(ranges, largest)
    assert all(0 < stop - start <= largest for start, stop in cut)
    whole = [byte for start, stop in ranges for byte in range(start, stop)]
    assert [byte for start, stop in cut for byte in range(start, stop)] == whole


def test_nothing_is_held_once_cleared() -> None:
    intervals = Intervals()
    intervals.add(3, 9)
    intervals.clear()
    assert intervals.missing(0, 10) == [(0, 10)]
