"""The `tensors` check: every value of the written files is held against the source, by a second route.

The written file is read at the offsets of its own header; the source element of every coordinate comes from
`where`, which shares no code with `fill`, and is read with this module's own reads, at another block size
than the writer's. Values are compared as raw integers, so NaN payloads and signed zeros count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from itertools import product
from pathlib import Path

import numpy as np

from hfconvert.checks.result import Check
from hfconvert.tensors.header import HeaderEntry, read_header
from hfconvert.tensors.lazy import LazyTensor, Mesh, Place, RawArray
from hfconvert.tensors.source import ByteSource, LocalFile

ROWS_BYTES = 3 << 19  # bytes of one comparison: unlike the writer's block on purpose
SPAN_BYTES = 8 << 20  # bytes of source read at once where elements are scattered
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


NOTHING = Compared(0, 0, ())


def compare_file(path: Path, file: str, tensors: Mapping[str, LazyTensor]) -> Compared:
    """Compare every value of a written file with the source tensors that its names stand for."""
    written = LocalFile.of(path, file)
    entries = read_header(written).entries
    with ThreadPoolExecutor(WORKERS) as pool:
        parts = pool.map(lambda entry: _compare(written, entry, tensors.get(entry.name)), entries)
        return reduce(Compared.__add__, parts, NOTHING)


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


def skipped_tensors() -> Check:
    """The outcome where the recipe says `validate.tensors: off`."""
    return Check("tensors", "skipped", detail="validate.tensors is off")


def _compare(written: ByteSource, entry: HeaderEntry, tensor: LazyTensor | None) -> Compared:
    if tensor is None:
        return Compared(0, 1, (f"{entry.name} is not in the source",))
    if tensor.spec != entry.spec:
        return Compared(0, 1, (f"{entry.name} is {entry.spec}, in the source {tensor.spec}",))
    raw = entry.spec.dtype.raw
    position = entry.start
    for mesh in _meshes(tensor.extent, raw.itemsize):
        shape = tuple(len(axis) for axis in mesh)
        count = int(np.prod(shape, dtype=np.int64))
        result = np.empty(shape, raw)
        written.readinto(memoryview(result.reshape(-1).view(np.uint8)), position)
        position += count * raw.itemsize
        source = _gather(tensor, mesh, shape)
        if not np.array_equal(result, source):
            first = np.argwhere(result != source)[0]
            at = tuple(int(axis[i]) for axis, i in zip(mesh, first, strict=True))
            return Compared(entry.spec.elements, 1, (f"{entry.name} differs first at {at}",))
    return Compared(entry.spec.elements, 1, ())


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


def _gather(tensor: LazyTensor, mesh: Mesh, shape: tuple[int, ...]) -> RawArray:
    """The source's raw values at the coordinates of the mesh."""
    places = list(tensor.where(mesh))
    if len(places) == 1:
        return _values(places[0]).reshape(shape)
    source = np.zeros(shape, tensor.spec.dtype.raw)
    for place in places:
        source[np.ix_(*place.select)] = _values(place)
    return source


def _values(place: Place) -> RawArray:
    """The elements of a place: one read where they follow each other, else row by row, else scattered."""
    shape = tuple(len(step) for step in place.steps)
    inner = _run_axes(place.steps)
    run = int(np.prod(shape[inner:], dtype=np.int64))
    values = np.empty((int(np.prod(shape[:inner], dtype=np.int64)), run), place.dtype.raw)
    tail = sum(int(step[0]) for step in place.steps[inner:])
    heads = _sums(place.steps[:inner]) + tail
    if run * place.itemsize >= 512 or len(heads) == 1:
        for row, head in zip(values, heads, strict=True):
            _read(place, int(head), row)
        return values.reshape(shape)
    return _scattered(place, _sums(place.steps)).reshape(shape)


def _run_axes(steps: Mesh) -> int:
    """The first axis from which on all elements follow each other in the source."""
    length = 1
    for axis in range(len(steps) - 1, -1, -1):
        step = steps[axis]
        if len(step) > 1 and not np.array_equal(np.diff(step), np.full(len(step) - 1, length)):
            return axis + 1
        length *= len(step)
    return 0


def _sums(steps: Mesh) -> RawArray:
    """All the sums of one element of each array, in row-major order."""
    return reduce(
        lambda left, right: np.add.outer(left, right).reshape(-1), steps, np.zeros(1, np.int64)
    )


def _scattered(place: Place, numbers: RawArray) -> RawArray:
    """Single elements: sorted, and read in spans of bounded size."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    values = np.empty(len(numbers), place.dtype.raw)
    reach = SPAN_BYTES // place.itemsize
    begin = 0
    while begin < len(ordered):
        end = int(np.searchsorted(ordered, ordered[begin] + reach, side="left"))
        buffer = np.empty(int(ordered[end - 1] - ordered[begin]) + 1, place.dtype.raw)
        _read(place, int(ordered[begin]), buffer)
        values[order[begin:end]] = buffer[ordered[begin:end] - ordered[begin]]
        begin = end
    return values


def _read(place: Place, element: int, out: RawArray) -> None:
    offset = place.start + element * place.itemsize
    place.source.readinto(memoryview(out.view(np.uint8)), offset)
