"""The `tensors` check: every value of the written files is held against the source, by a second route.

The written file is read at the offsets of its own header; the source element of every coordinate comes from
`where`, which shares no code with `fill`, and is read by other code, at another block size than the writer's.
Values are compared as raw integers, so NaN payloads and signed zeros count; where a cast lies between, it is
done again by integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from pathlib import Path

import numpy as np

from hfconvert.checks.gather import values_at
from hfconvert.checks.result import Check
from hfconvert.checks.rounding import differs
from hfconvert.checks.written import header_of
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.header import HeaderEntry
from hfconvert.tensors.lazy import LazyTensor, Mesh, Place, RawArray
from hfconvert.tensors.shared import Shared
from hfconvert.tensors.source import ByteSource, LocalFile

ROWS_BYTES = 3 << 17  # bytes of one comparison: unlike the writer's block on purpose
WORKERS = 2


@dataclass(frozen=True, slots=True)
class Compared:
    """How much was compared, and where it differed: tensor and coordinates, the first of each tensor."""

    values: int
    tensors: int
    differences: tuple[str, ...]

    def __add__(self, other: Compared) -> Compared:
        return Compared(
            self.values + other.values,
            self.tensors + other.tensors,
            self.differences + other.differences,
        )


Coordinates = tuple[int, ...]
NOTHING = Compared(0, 0, ())


def compare_file(path: Path, file: str, tensors: Mapping[str, LazyTensor]) -> Compared:
    """Compare every value of a written file with the source tensors that its names stand for."""
    header = header_of(path, file)
    if isinstance(header, str):
        return Compared(0, 0, (header,))
    written = LocalFile.of(path, file)
    absent = tensors.keys() - {entry.name for entry in header.entries}
    missing = Compared(0, 0, tuple(f"{name} is not in {file}" for name in sorted(absent)))
    tasks = Shared(iter(header.entries))

    def work() -> Compared:
        return reduce(
            Compared.__add__,
            (_compare(written, entry, tensors.get(entry.name)) for entry in tasks),
            NOTHING,
        )

    with ThreadPoolExecutor(WORKERS) as pool:
        parts = [pool.submit(work) for _ in range(WORKERS)]
        return reduce(Compared.__add__, (part.result() for part in parts), missing)


def tensors_check(compared: Compared, expected: int) -> Check:
    """The outcome over all files; `expected` is how many tensors had to be compared."""
    failed = bool(compared.differences) or compared.tensors != expected
    return Check(
        "tensors",
        "fail" if failed else "pass",
        {
            "tensors": compared.tensors,
            "values": compared.values,
            "different": len(compared.differences),
        },
        {"tensors": expected, "different": 0},
        "; ".join(compared.differences[:10]),
    )


def first_difference(
    written: ByteSource, entry: HeaderEntry, tensor: LazyTensor
) -> Coordinates | None:
    """The coordinates of the first written value that is not the source's, rounded where it was cast."""
    raw = entry.spec.dtype.raw
    position = entry.start
    for mesh in _meshes(tensor.extent, raw.itemsize):
        shape = tuple(len(axis) for axis in mesh)
        result = np.empty(shape, raw)
        written.readinto(memoryview(result.reshape(-1).view(np.uint8)), position)
        position += result.nbytes
        held = 0
        for place in tensor.where(mesh):
            at = _difference_at(place, result, mesh, entry.spec.dtype)
            if at is not None:
                return at
            held += prod(map(len, place.select))
        if held < result.size:  # nothing is right that was held against nothing
            return tuple(int(axis[0]) for axis in mesh)
    return None


def skipped_tensors() -> Check:
    """The outcome where the recipe says `validate.tensors: off`."""
    return Check("tensors", "skipped", detail="validate.tensors is off")


def _compare(written: ByteSource, entry: HeaderEntry, tensor: LazyTensor | None) -> Compared:
    if tensor is None:
        return Compared(0, 1, (f"{entry.name} is not in the source",))
    if tensor.spec != entry.spec:
        return Compared(0, 1, (f"{entry.name} is {entry.spec}, in the source {tensor.spec}",))
    at = first_difference(written, entry, tensor)
    differences = () if at is None else (f"{entry.name} differs first at {at}",)
    return Compared(entry.spec.elements, 1, differences)


def _meshes(extent: tuple[int, ...], unit: int) -> Iterator[Mesh]:
    """Coordinates of the whole extent in row-major runs: some rows, or part of one row at a time."""
    if 0 in extent:
        return
    steps, room = [], max(1, ROWS_BYTES // unit)
    for size in reversed(extent):
        step = max(1, min(size, room))
        steps.append(step)
        room = room // size if step == size else 0
    steps.reverse()
    ranges = [range(0, size, step) for size, step in zip(extent, steps, strict=True)]
    for corner in product(*ranges):
        yield tuple(
            np.arange(lo, min(lo + step, size), dtype=np.int64)
            for lo, step, size in zip(corner, steps, extent, strict=True)
        )


def _difference_at(place: Place, result: RawArray, mesh: Mesh, dtype: DType) -> Coordinates | None:
    part = result[np.ix_(*place.select)] if place.select else result
    wrong = differs(part, values_at(place), place.dtype, dtype)
    if not wrong.any():
        return None
    first = np.argwhere(wrong)[0]
    picked = zip(mesh, place.select, first, strict=True)
    return tuple(int(axis[select[i]]) for axis, select, i in picked)
