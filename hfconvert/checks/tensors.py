"""The `tensors` check: every value of the written files is held against the source, by a second route.

The written file is read at the offsets of its own header; the source element of every coordinate comes from
`where`, which shares no code with `fill`, and is read by other code, at another block size than the writer's.
Values are compared as raw integers, so NaN payloads and signed zeros count; where a cast lies between, it is
done again by integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from math import prod
from pathlib import Path

import numpy as np

from hfconvert.checks.blocks import start_of, tiles
from hfconvert.checks.gather import stride_of, values_at
from hfconvert.checks.result import Check
from hfconvert.checks.rounding import differs
from hfconvert.checks.sample import every_block
from hfconvert.checks.written import header_of
from hfconvert.tensors.box import Shape
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.header import HeaderEntry
from hfconvert.tensors.lazy import LazyTensor, Mesh, Place, RawArray
from hfconvert.tensors.shared import Shared
from hfconvert.tensors.source import ByteSource, LocalFile

WORKERS = 2


@dataclass(frozen=True, slots=True)
class Compared:
    """How much was compared, and where it differed: tensor and coordinates, the first of each tensor.

    `values` were compared, of `total`.
    """

    values: int
    tensors: int
    differences: tuple[str, ...]
    total: int = 0

    def __add__(self, other: Compared) -> Compared:
        return Compared(
            self.values + other.values,
            self.tensors + other.tensors,
            self.differences + other.differences,
            self.total + other.total,
        )


Coordinates = tuple[int, ...]
Blocks = Callable[[str, Shape, int], Iterator[Mesh]]  # name, extent, bytes of an element
NOTHING = Compared(0, 0, ())


def compare_file(
    path: Path,
    file: str,
    tensors: Mapping[str, LazyTensor],
    blocks: Blocks = every_block,
    apart: Container[str] = (),
) -> Compared:
    """Compare a written file with the source tensors that its names stand for: all values, or some blocks.

    The names in `apart` lie in no source as they are written: another check holds them.
    """
    header = header_of(path, file)
    if isinstance(header, str):
        return Compared(0, 0, (header,))
    written = LocalFile.of(path, file)
    entries = [entry for entry in header.entries if entry.name not in apart]
    absent = {name for name in tensors if name not in apart} - {entry.name for entry in entries}
    missing = Compared(0, 0, tuple(f"{name} is not in {file}" for name in sorted(absent)))
    tasks = Shared(iter(entries))

    def work() -> Compared:
        return reduce(
            Compared.__add__,
            (_compare(written, entry, tensors.get(entry.name), blocks) for entry in tasks),
            NOTHING,
        )

    with ThreadPoolExecutor(WORKERS) as pool:
        parts = [pool.submit(work) for _ in range(WORKERS)]
        return reduce(Compared.__add__, (part.result() for part in parts), missing)


def tensors_check(compared: Compared, expected: int, *, sampled: bool = False) -> Check:
    """The outcome over all files; `expected` is how many tensors had to be compared.

    `sampled` says that some blocks of every tensor were compared, and not all: then that is said.
    """
    share = compared.values / compared.total if compared.total else 1.0
    said = [_what_a_sample_misses(share)] if sampled and share < 1 else []
    failed = bool(compared.differences) or compared.tensors != expected
    return Check(
        "tensors",
        "fail" if failed else "pass",
        {
            "tensors": compared.tensors,
            "values": compared.values,
            "different": len(compared.differences),
            **({"share": round(share, 6)} if sampled else {}),
        },
        {"tensors": expected, "different": 0},
        "; ".join((*compared.differences[:10], *said)),
    )


def first_difference(
    written: ByteSource, entry: HeaderEntry, tensor: LazyTensor, blocks: Blocks = every_block
) -> Coordinates | None:
    """The coordinates of the first written value that is not the source's, rounded where it was cast.

    Only the values in `blocks` are looked at.
    """
    unit = entry.spec.dtype.itemsize
    fast = _fast_axis(tensor) if blocks is every_block else None
    chosen = (
        blocks(entry.name, tensor.extent, unit)
        if fast is None
        else tiles(tensor.extent, unit, fast)
    )
    for mesh in chosen:
        result = _written(written, entry, tensor.extent, mesh)
        held = 0
        for place in tensor.where(mesh):
            at = _difference_at(place, result, mesh, entry.spec.dtype)
            if at is not None:
                return at
            held += prod(map(len, place.select))
        if held < result.size:  # nothing is right that was held against nothing
            return tuple(int(axis[0]) for axis in mesh)
    return None


def _written(written: ByteSource, entry: HeaderEntry, extent: Shape, mesh: Mesh) -> RawArray:
    """The written values of a mesh whose coordinates follow each other along every axis."""
    dtype = entry.spec.dtype
    size = prod(map(len, mesh))
    start = start_of(mesh, extent)
    if size == 1 or start_of(tuple(axis[-1:] for axis in mesh), extent) - start == size - 1:
        result = np.empty(tuple(map(len, mesh)), dtype.raw)
        position = entry.start + start * dtype.itemsize
        written.readinto(memoryview(result.reshape(-1).view(np.uint8)), position)
        return result
    strides = (prod(extent[axis + 1 :]) for axis in range(len(extent)))
    steps = tuple(axis * stride for axis, stride in zip(mesh, strides, strict=True))
    select = tuple(np.arange(len(axis)) for axis in mesh)
    return values_at(Place(written, dtype, entry.start, dtype.itemsize, steps, select))


def _fast_axis(tensor: LazyTensor) -> int | None:
    """The axis along which neighbours are nearest in the source, where that is not the last one."""
    corner = tuple(np.arange(min(2, size), dtype=np.int64) for size in tensor.extent)
    place = None if 0 in tensor.extent else next(tensor.where(corner), None)
    strides = [stride_of(step) for step in place.steps] if place else []
    if not strides or strides[-1] == 1 or min(strides) == strides[-1]:
        return None
    return strides.index(min(strides))


def skipped_tensors() -> Check:
    """The outcome where the recipe says `validate.tensors: off`."""
    return Check("tensors", "skipped", detail="validate.tensors is off")


def _what_a_sample_misses(share: float) -> str:
    return (
        f"{share:.2%} of the values were compared, the first and last blocks of every tensor among them; "
        f"a wrong value elsewhere is missed, a wrong block with a chance of {1 - share:.0%}"
    )


def _compare(
    written: ByteSource, entry: HeaderEntry, tensor: LazyTensor | None, blocks: Blocks
) -> Compared:
    if tensor is None:
        return Compared(0, 1, (f"{entry.name} is not in the source",))
    if tensor.spec != entry.spec:
        return Compared(0, 1, (f"{entry.name} is {entry.spec}, in the source {tensor.spec}",))
    at = first_difference(written, entry, tensor, blocks)
    differences = () if at is None else (f"{entry.name} differs first at {at}",)
    return Compared(_values(entry, tensor, blocks), 1, differences, entry.spec.elements)


def _values(entry: HeaderEntry, tensor: LazyTensor, blocks: Blocks) -> int:
    """How many values lie in the blocks."""
    if blocks is every_block:
        return entry.spec.elements
    chosen = blocks(entry.name, tensor.extent, entry.spec.dtype.itemsize)
    return sum(prod(map(len, mesh)) for mesh in chosen)


def _difference_at(place: Place, result: RawArray, mesh: Mesh, dtype: DType) -> Coordinates | None:
    everything = result.shape == tuple(map(len, place.select))
    part = result if everything else result[np.ix_(*place.select)]
    wrong = differs(part, values_at(place), place.dtype, dtype)
    if not wrong.any():
        return None
    first = np.argwhere(wrong)[0]
    picked = zip(mesh, place.select, first, strict=True)
    return tuple(int(axis[select[i]]) for axis, select, i in picked)
