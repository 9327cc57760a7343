"""Runs: values that lie in a source in the order of the written ones, compared in slices at little cost."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import NamedTuple

import numpy as np

from hfconvert.checks.blocks import start_of
from hfconvert.checks.disk import DiskFile
from hfconvert.checks.gather import follow_each_other
from hfconvert.checks.rounding import unequal
from hfconvert.tensors.box import Shape
from hfconvert.tensors.header import HeaderEntry
from hfconvert.tensors.lazy import Mesh, Place

SLICE_BYTES = 3 << 17  # bytes of either side that are compared at once: they stay in a core's cache


class Run(NamedTuple):
    """`size` elements of a tensor from number `first` on, row-major; at byte `start` of a source."""

    place: Place
    start: int
    first: int
    size: int


def runs_of(places: Iterable[Place], mesh: Mesh, extent: Shape) -> list[Run] | None:
    """The elements of a mesh as runs that follow each other; None where they are not that."""
    runs = []
    for place in places:
        run = _run_of(place, mesh, extent)
        if run is None:
            return None
        runs.append(run)
    runs.sort(key=lambda run: run.first)
    ends = [start_of(mesh, extent), *(run.first + run.size for run in runs)]
    gapless = all(run.first == end for run, end in zip(runs, ends, strict=False))
    return runs if gapless and ends[-1] - ends[0] == prod(map(len, mesh)) else None


def _run_of(place: Place, mesh: Mesh, extent: Shape) -> Run | None:
    picked = tuple(axis[select] for axis, select in zip(mesh, place.select, strict=True))
    size = prod(map(len, picked))
    first = start_of(picked, extent)
    if start_of(tuple(axis[-1:] for axis in picked), extent) - first != size - 1:
        return None
    if not follow_each_other(place):
        return None
    begin = sum(int(steps[0]) for steps in place.steps)
    return Run(place, place.start + begin * place.itemsize, first, size)


def first_in_run(run: Run, written: DiskFile, entry: HeaderEntry) -> int | None:
    """The number of the first element of the run that is not what the source's rounds to."""
    dtype, place = entry.spec.dtype, run.place
    unit, number, offset = dtype.itemsize, run.first, run.start
    memory = np.empty(min(run.size, SLICE_BYTES // max(place.itemsize, unit)), place.dtype.raw)
    size, differs = len(memory), unequal(place.dtype, dtype)
    for stretch in written.stretches(entry.start + number * unit, run.size * unit, unit):
        result = np.frombuffer(stretch, dtype.raw)
        for at in range(0, len(result), size):
            part = result[at : at + size]
            values = memory[: len(part)]
            place.source.readinto(memoryview(values.view(np.uint8)), offset)
            wrong = differs(part, values)
            if wrong.any():
                return number + int(wrong.argmax())
            number, offset = number + len(part), offset + values.nbytes
    return None
