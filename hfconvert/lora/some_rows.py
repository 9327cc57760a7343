"""The update of some rows of a tensor, where its other rows are of other modules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hfconvert.lora.updates import Change, Sums, Update
from hfconvert.tensors.box import Box
from hfconvert.tensors.lazy import Input


@dataclass(frozen=True, slots=True)
class Some:
    """An update of `rows` rows of a tensor, from row `first` on; the others stay as they are, bit for bit."""

    update: Update
    first: int
    rows: int

    @property
    def at_stored_dtype(self) -> bool:
        """As the update itself says."""
        return self.update.at_stored_dtype

    def over(self, box: Box) -> Change:
        """The update over what of the box it is for."""
        shared = self._shared(box)
        change = self.update.over(self._inner(shared)) if shared else None

        def changed(sums: Sums, part: Box) -> None:
            both = self._shared(part)
            if change and both:
                change(sums[both[0][0] - part[0][0] : both[0][1] - part[0][0]], self._inner(both))

        return changed

    def inputs(self, box: Box) -> Iterator[Input]:
        """What the update reads for that."""
        shared = self._shared(box)
        if shared:
            yield from self.update.inputs(self._inner(shared))

    def _shared(self, box: Box) -> Box | None:
        lo, hi = max(box[0][0], self.first), min(box[0][1], self.first + self.rows)
        return ((lo, hi), *box[1:]) if lo < hi else None

    def _inner(self, box: Box) -> Box:
        return ((box[0][0] - self.first, box[0][1] - self.first), *box[1:])
