"""Views of one source that have bytes in common without being the same view."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from hfconvert.tensors.leaf import Leaf

OPEN = 64  # views that one is held against, of those whose spans reach into its own
WORK: Any = (
    10_000  # steps of numpy's exact solver; what it cannot settle in these counts as overlapping
)


class _Span(NamedTuple):
    source: str
    start: int
    stop: int
    name: str


def overlapping(leaves: Mapping[str, Leaf]) -> Iterator[tuple[str, str]]:
    """Pairs of names whose views share a byte and are not the same. Reads nothing.

    Columns of one matrix lie within each other's reach and share nothing: they are no pair.
    """
    spans = sorted(_span(name, leaf) for name, leaf in leaves.items() if leaf.spec.nbytes)
    before: deque[_Span] = deque(maxlen=OPEN)
    for span in spans:
        reaching = [one for one in before if one.source == span.source and one.stop > span.start]
        for one in reaching:
            if _share_bytes(leaves[one.name], leaves[span.name]):
                yield one.name, span.name
        before = deque([*reaching, span], maxlen=OPEN)


def _span(name: str, leaf: Leaf) -> _Span:
    reach = sum((size - 1) * stride for size, stride in zip(leaf.extent, leaf.strides, strict=True))
    stop = leaf.start + (reach + 1) * leaf.spec.dtype.itemsize
    return _Span(leaf.source.name, leaf.start, stop, name)


def _share_bytes(one: Leaf, other: Leaf) -> bool:
    if _place(one) == _place(other):
        return False
    try:
        return np.shares_memory(_addresses(one), _addresses(other), max_work=WORK)
    except np.exceptions.TooHardError:
        return True


def _place(leaf: Leaf) -> tuple[Any, ...]:
    """What tells views apart: axes of one element have no stride to speak of."""
    axes = [
        (size, stride) for size, stride in zip(leaf.extent, leaf.strides, strict=True) if size > 1
    ]
    return (leaf.start, leaf.spec.dtype.itemsize, axes)


def _addresses(leaf: Leaf) -> NDArray[np.uint8]:
    """An array that lies over the addresses of the view, counted from a byte of no meaning; never read."""
    unit = leaf.spec.dtype.itemsize
    base = as_strided(_ORIGIN, (leaf.start + 1,), (1,))[leaf.start :]
    strides = tuple(stride * unit for stride in leaf.strides)
    return as_strided(base, (*leaf.extent, unit), (*strides, 1))


_ORIGIN = np.zeros(1, np.uint8)
