"""The `tensors` check: every value of the written files is held against the source, by a second route.

The written file is read at the offsets of its own header; the source element of every coordinate comes from
`where`, which shares no code with `fill`, and is read by other code, at another block size than the writer's.
Values are compared as raw integers, so NaN payloads and signed zeros count; where a cast lies between, it is
done again by integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from math import prod
from pathlib import Path

from hfconvert.checks.disk import DiskFile
from hfconvert.checks.first import Blocks, first_difference
from hfconvert.checks.result import Check
from hfconvert.checks.sample import every_block
from hfconvert.checks.written import header_of
from hfconvert.tensors.header import HeaderEntry
from hfconvert.tensors.lazy import LazyTensor


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
    entries = [entry for entry in header.entries if entry.name not in apart]
    absent = {name for name in tensors if name not in apart} - {entry.name for entry in entries}
    missing = Compared(0, 0, tuple(f"{name} is not in {file}" for name in sorted(absent)))
    try:
        opened = DiskFile(path, file)
    except OSError as error:
        return Compared(0, 0, (f"{file} cannot be opened: {error.strerror or error}",))
    with closing(opened) as written:
        found = (_compare(written, entry, tensors.get(entry.name), blocks) for entry in entries)
        return reduce(Compared.__add__, found, missing)


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


def skipped_tensors() -> Check:
    """The outcome where the recipe says `validate.tensors: off`."""
    return Check("tensors", "skipped", detail="validate.tensors is off")


def _what_a_sample_misses(share: float) -> str:
    return (
        f"{share:.2%} of the values were compared, the first and last blocks of every tensor among them; "
        f"a wrong value elsewhere is missed, a wrong block with a chance of {1 - share:.0%}"
    )


def _compare(
    written: DiskFile, entry: HeaderEntry, tensor: LazyTensor | None, blocks: Blocks
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
