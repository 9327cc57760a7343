"""The `merge` check: every merged value is the exact sum of base and update, rounded once.

The exact sum is computed in float64 by other code than the merge. A value may be off by half a unit in the
last place of the dtype that is written, and by what float32 arithmetic can lose; so a merge that did
nothing, left a layer out or scaled wrongly cannot pass, however small the update is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path

import numpy as np

from hfconvert.checks.blocks import box_of
from hfconvert.checks.exact import (
    BY_PEFT,
    NUMPY,
    Doubles,
    Exact,
    ExactSum,
    by_formula,
    half_unit,
    read_doubles,
)
from hfconvert.checks.first import Blocks
from hfconvert.checks.held import Held, Norms
from hfconvert.checks.result import Check
from hfconvert.checks.written import header_of
from hfconvert.lora.base import family
from hfconvert.lora.merges import Merges, Sum
from hfconvert.tensors.box import Box, blocks, offset_of, shape_of
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.header import HeaderEntry
from hfconvert.tensors.shared import Shared
from hfconvert.tensors.source import LocalFile

WORKERS = 2
BLOCK = 4 << 20  # bytes of float64 values held against each other at once


def hold_file(path: Path, file: str, merges: Merges, sampled: Blocks | None = None) -> Held:
    """Hold the merged tensors of a written file against their exact sums; all values, or some blocks."""
    header = header_of(path, file)
    if isinstance(header, str):
        return Held(wrong=(header,))
    written = LocalFile.of(path, file)
    tasks = Shared(entry for entry in header.entries if entry.name in merges.sums)

    def work() -> Held:
        return reduce(Held.__add__, (_hold(written, one, merges, sampled) for one in tasks), Held())

    with ThreadPoolExecutor(WORKERS) as pool:
        parts = [pool.submit(work) for _ in range(WORKERS)]
        return reduce(Held.__add__, (part.result() for part in parts), Held())


def merge_check(held: Held | None, merges: Merges) -> Check:
    """The outcome over all files; `held` is None where the recipe says that values are not compared."""
    measured = {
        "modules": dict(merges.touched),
        "targeted": dict(merges.targeted),
        "adapters": len(merges.adapters),
    }
    if held is None:
        return Check("merge", "skipped", measured, {}, "validate.tensors is off")
    untouched = _untouched(merges)
    failed = bool(held.wrong) or held.tensors != len(merges.sums) or bool(untouched)
    lost = {name: round(_share(norms), 4) for name, norms in held.norms.items()}
    return Check(
        "merge",
        "fail" if failed else "pass",
        {
            "tensors": held.tensors,
            "values": held.values,
            "wrong": len(held.wrong),
            "lost_by_rounding": lost,
            **measured,
        },
        {"tensors": len(merges.sums), "wrong": 0},
        "; ".join([*held.wrong[:10], *untouched, *_said(held.norms), *_forward(merges)]),
    )


@np.errstate(
    over="ignore", invalid="ignore", divide="ignore"
)  # what is not finite is told in words
def _hold(written: LocalFile, entry: HeaderEntry, merges: Merges, sampled: Blocks | None) -> Held:
    one = merges.sums[entry.name]
    name = family(one.terms[0].module)
    exact_sum = ExactSum.of(one)
    norms, values = Norms(), 0
    for box in _boxes(entry, sampled):
        found = _read(written, entry, box)
        exact = exact_sum.block(box)
        room = _room(one, exact, entry.spec.dtype, native=merges.native)
        difference = np.abs(found - exact.value)
        wrong = ~(difference <= room) & ~_both_infinite(found, exact.value)
        values += found.size
        if wrong.any():
            return Held(1, values, (_complaint(entry, box, wrong, found, exact.value),), {})
        if spoilt := _spoilt(one, found, box):
            return Held(1, values, (f"{entry.name}: {spoilt}",), {})
        norms = norms.plus(Norms(_squares(exact.update), _squares(difference)))
    return Held(1, values, (), {name: norms})


def _boxes(entry: HeaderEntry, sampled: Blocks | None) -> Iterator[Box]:
    shape = entry.spec.shape
    if sampled is None:
        yield from blocks(shape, 8, BLOCK)
    else:
        yield from map(box_of, sampled(entry.name, shape, entry.spec.dtype.itemsize))


def _read(written: LocalFile, entry: HeaderEntry, box: Box) -> Doubles:
    dtype = entry.spec.dtype
    raw = np.empty(shape_of(box), dtype.raw)
    position = entry.start + offset_of(box, entry.spec.shape) * dtype.itemsize
    written.readinto(memoryview(raw.reshape(-1).view(np.uint8)), position)
    values: Doubles = raw.view(NUMPY[dtype.code]).astype(np.float64)
    return values


def _room(one: Sum, exact: Exact, dtype: DType, *, native: bool) -> Doubles:
    """How far a written value may be from the exact one."""
    room = exact.slack
    if dtype.code != "F32":
        room = room + half_unit(np.abs(exact.value) + room, dtype)
    if native:  # every update and every sum is rounded at the dtype of the base
        steps = sum(2 if term.parameter or term.kind in BY_PEFT else 1 for term in one.terms)
        room = room + steps * half_unit(exact.reach + room, one.base.spec.dtype)
    return room


def _squares(values: Doubles) -> float:
    """The sum of the squares of what is finite."""
    return float(np.sum(np.square(values[np.isfinite(values)])))


def _both_infinite(
    found: Doubles, exact: Doubles
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Infinite or NaN on both sides: the source's, or what `_spoilt` tells of."""
    return ~np.isfinite(found) & ~np.isfinite(exact)


def _spoilt(one: Sum, found: Doubles, box: Box) -> str:
    """What an update made infinite or NaN of what was finite; empty where nothing."""
    if np.isfinite(found).all():
        return ""
    lost = int(np.count_nonzero(np.isfinite(read_doubles(one.base, box)) & ~np.isfinite(found)))
    return f"the update makes {lost} values infinite or NaN that were finite" if lost else ""


def _complaint(
    entry: HeaderEntry,
    box: Box,
    wrong: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    found: Doubles,
    exact: Doubles,
) -> str:
    first = tuple(int(place) for place in np.argwhere(wrong)[0])
    at = tuple(place + lo for place, (lo, _) in zip(first, box, strict=True))
    return (
        f"{entry.name} differs from the exact sum first at {at}: written {found[first]:.9g}, "
        f"exact {exact[first]:.9g}; {int(wrong.sum())} of {wrong.size} values of the block"
    )


def _untouched(merges: Merges) -> list[str]:
    """Families of which fewer modules were merged than the configurations target."""
    return [
        f"{merges.touched.get(name, 0)} of {count} modules `{name}` were merged"
        for name, count in merges.targeted.items()
        if merges.touched.get(name, 0) < count
    ]


def _forward(merges: Merges) -> Iterator[str]:
    """Which methods were held against PEFT's own forward pass."""
    terms = (one.terms for one in merges.sums.values() if not by_formula(one))
    methods = dict.fromkeys(term.settings.peft_type for some in terms for term in some)
    if methods:
        yield f"{', '.join(methods)} held against PEFT's forward pass in float64, not a formula of ours"


def _share(norms: Norms) -> float:
    return min(1.0, math.sqrt(norms.lost / norms.update)) if norms.update else 0.0


def _said(norms: Mapping[str, Norms]) -> Iterator[str]:
    """What rounding took, where that is much; and updates that are nothing."""
    zero = [name for name, one in norms.items() if one.update == 0]
    if zero:
        yield f"the update of {', '.join(zero)} is zero everywhere: untrained"
    nothing = [name for name, one in norms.items() if 0 < one.update <= one.lost]
    if nothing:
        yield (
            f"what is left of the update of {', '.join(nothing)} is less than rounding: adapters cancel "
            "each other, or the dtype is too narrow"
        )
    total = reduce(Norms.plus, norms.values(), Norms())
    share = _share(total)
    if share > _MUCH:
        yield f"rounding takes {share:.0%} of the update; a wider dtype keeps more"


_MUCH = 0.05
