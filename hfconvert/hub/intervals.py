"""Sets of byte ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

Range = tuple[int, int]  # start, stop


class Intervals:
    """Disjoint byte ranges in order; ranges that touch are one."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __iter__(self) -> Iterator[Range]:
        return iter(zip(self._starts, self._stops, strict=True))

    @property
    def total(self) -> int:
        """Bytes in all of them."""
        return sum(self._stops) - sum(self._starts)

    def add(self, start: int, stop: int) -> None:
        """Include the bytes `start` to `stop`."""
        if start >= stop:
            return
        first = bisect_left(self._stops, start)
        last = bisect_right(self._starts, stop)
        if first < last:
            start, stop = min(start, self._starts[first]), max(stop, self._stops[last - 1])
        self._starts[first:last] = [start]
        self._stops[first:last] = [stop]

    def missing(self, start: int, stop: int) -> list[Range]:
        """The parts of `start` to `stop` that are not included."""
        gaps = []
        for known_start, known_stop in self._within(start, stop):
            if start < known_start:
                gaps.append((start, known_start))
            start = max(start, known_stop)
        if start < stop:
            gaps.append((start, stop))
        return gaps

    def clear(self) -> None:
        """Include nothing."""
        self._starts.clear()
        self._stops.clear()

    def _within(self, start: int, stop: int) -> Iterator[Range]:
        first = bisect_right(self._stops, start)
        last = bisect_left(self._starts, stop)
        return zip(self._starts[first:last], self._stops[first:last], strict=True)


def merged(ranges: Iterable[Range], gap: int) -> list[Range]:
    """The ranges in order; those with at most `gap` bytes between them are one. Empty ones are left out."""
    found: list[Range] = []
    for start, stop in sorted(ranges):
        if start >= stop:
            continue
        if found and start - found[-1][1] <= gap:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return found


def pieces(ranges: Iterable[Range], largest: int) -> list[Range]:
    """The ranges cut so that none is longer than `largest`."""
    return [
        (begin, min(begin + largest, stop))
        for start, stop in ranges
        for begin in range(start, stop, largest)
    ]
