"""A distant file whose entries have headers right before their data: each is read and checked with its data.

To list such a file no header is read where directory and alignment tell where the data begins: thousands of
requests are saved. No byte of an entry is given before its header was found to say the same.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hfconvert.tensors.source import ByteSource

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Guard:
    """An entry: its header begins at `header`, its data at `start` and ends at `stop`.

    `check` reads the header. UserError (exit 3) where it does not say what was assumed.
    """

    header: int
    start: int
    stop: int
    check: Callable[[], None]


class Guarded:
    """The same bytes; those of an entry only after its header was checked, once."""

    distant = True

    def __init__(self, base: ByteSource, guards: Iterable[Guard]) -> None:
        self.name, self.size = base.name, base.size
        self._base = base
        self._guards = sorted((one for one in guards if one.start < one.stop), key=_start)
        self._starts = [one.start for one in self._guards]
        self._checked: set[int] = set()
        self._lock = threading.Lock()

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Check what was not checked, then read. UserError (exit 3) where a header says other things."""
        for number in self._unchecked(offset, offset + buffer.nbytes):
            self._guards[number].check()
            with self._lock:
                self._checked.add(number)
        self._base.readinto(buffer, offset)

    def stage(self, ranges: Sequence[Range]) -> None:
        """Stage them in the base, with the headers that have to be checked before."""
        headers = {
            (self._guards[number].header, self._guards[number].start)
            for start, stop in ranges
            for number in self._unchecked(start, stop)
        }
        self._base.stage([*ranges, *sorted(headers)])

    def discard(self) -> None:
        """Let the base give back what it keeps, where it does."""
        getattr(self._base, "discard", lambda: None)()

    def _unchecked(self, start: int, stop: int) -> list[int]:
        """Numbers of the entries that the range reaches into and whose header was not checked yet."""
        number = max(0, bisect_right(self._starts, start) - 1)
        found = []
        while number < len(self._guards) and self._starts[number] < stop:
            if self._guards[number].stop > start and number not in self._checked:
                found.append(number)
            number += 1
        return found


def _start(guard: Guard) -> int:
    return guard.start
