"""What goes in and what comes out, in figures: tensors, parameters and bytes, and why the bytes differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hfconvert.tensors.box import full
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor


class Amount(NamedTuple):
    """Tensors, the values in them, and the bytes of those values packed."""

    tensors: int
    parameters: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Source and result by dtype code, and how many tensors met which fate.

    In `source`, names over the very same bytes count once; `source_tensors` counts all names. `source_bytes`
    are the bytes that its tensors lie in, those that views share once; with all of `causes` they make the
    bytes of the result.
    """

    source: Mapping[str, Amount]
    result: Mapping[str, Amount]
    source_tensors: int
    source_bytes: int
    unchanged: int
    merged: int
    mapped: int
    cast: int
    dropped: int
    tied: int
    causes: Mapping[str, int]

    @property
    def result_tensors(self) -> int:
        """Tensors in the result."""
        return sum(amount.tensors for amount in self.result.values())

    @property
    def result_bytes(self) -> int:
        """Bytes of the tensors in the result."""
        return sum(amount.nbytes for amount in self.result.values())


def count(
    source: Checkpoint, decided: Checkpoint, result: Checkpoint, *, dropped: int, tied: int
) -> Totals:
    """The totals of a plan: what was found, what is left of it after steps and ties, what is written."""
    cast = {
        name
        for name, entry in result.items()
        if name in decided and entry.tensor.spec.dtype != decided[name].tensor.spec.dtype
    }
    recast = sum(
        entry.tensor.spec.nbytes - decided[name].tensor.spec.nbytes
        for name, entry in result.items()
        if name in decided and entry.tensor.spec.elements == decided[name].tensor.spec.elements
    )
    mapped = {name for name, entry in decided.items() if entry.steps}
    merged = {name for name, entry in result.items() if any(map(_is_merge, entry.steps))}
    found, needed = _union(_tensors(source)), _union(_tensors(decided))
    packed, written = _nbytes(_tensors(decided)), _nbytes(_tensors(result))
    causes = {
        "left out": needed - found,
        "views written apart" if packed > needed else "gaps between views": packed - needed,
        "cast": recast,
        "adapters": written - packed - recast,
    }
    return Totals(
        source=_by_dtype(_once(_tensors(source))),
        result=_by_dtype(_tensors(result)),
        source_tensors=len(source),
        source_bytes=found,
        unchanged=len(result.keys() - cast - mapped - merged),
        merged=len(merged),
        mapped=len(mapped),
        cast=len(cast),
        dropped=dropped,
        tied=tied,
        causes={cause: nbytes for cause, nbytes in causes.items() if nbytes},
    )


def _is_merge(step: str) -> bool:
    return step.startswith("lora ")


def _tensors(checkpoint: Checkpoint) -> Iterator[LazyTensor]:
    return (entry.tensor for entry in checkpoint.values())


def _once(tensors: Iterable[LazyTensor]) -> Iterator[LazyTensor]:
    """Tensors, of those over the very same bytes the first; what lies nowhere is never the same."""
    seen: set[object] = set()
    for tensor in tensors:
        place = tuple(_places(tensor))
        if not place or place not in seen:
            seen.add(place)
            yield tensor


def _union(tensors: Iterable[LazyTensor]) -> int:
    """How many bytes of the sources the tensors lie in, each counted once."""
    total, reached, source = 0, 0, ""
    for name, start, stop in sorted(place for tensor in tensors for place in _places(tensor)):
        if name != source:
            source, reached = name, 0
        total += max(0, stop - max(start, reached))
        reached = max(reached, stop)
    return total


def _places(tensor: LazyTensor) -> Iterator[tuple[str, int, int]]:
    for part in tensor.needs(full(tensor.extent)):
        yield part.source.name, part.start, part.stop


def _nbytes(tensors: Iterable[LazyTensor]) -> int:
    return sum(tensor.spec.nbytes for tensor in tensors)


def _by_dtype(tensors: Iterable[LazyTensor]) -> dict[str, Amount]:
    amounts: dict[str, Amount] = {}
    for tensor in tensors:
        spec = tensor.spec
        before = amounts.get(spec.dtype.code, Amount(0, 0, 0))
        one = Amount(1, spec.elements, spec.nbytes)
        amounts[spec.dtype.code] = Amount(*map(sum, zip(before, one, strict=True)))
    return dict(_largest_first(amounts))


def _largest_first(amounts: Mapping[str, Amount]) -> Iterator[tuple[str, Amount]]:
    yield from sorted(amounts.items(), key=lambda item: (-item[1].nbytes, item[0]))
