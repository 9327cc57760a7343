"""What adapters do to one tensor, block by block: low-rank sums, replaced rows, stacked experts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hfconvert.dtypes.convert import FLOATS
from hfconvert.lora.product import (
    Floats,
    is_awkward,
    multiply,
    multiply_by_torch,
    multiply_stack_by_torch,
    windows,
)
from hfconvert.tensors.box import Box, full, shape_of
from hfconvert.tensors.lazy import Input, LazyTensor

Sums = NDArray[Any]  # float32, or float64 over a base of that type
Change = Callable[[Sums, Box], None]
"""Changes sums, which have the shape of the box and hold what the tensor is so far."""


class Update(Protocol):
    """A change of a tensor. Additive unless it says otherwise; the sum is in float32 or wider.

    `at_stored_dtype` says that PEFT rounds the update to the base's dtype before it adds it, where it
    merges at the stored dtypes.
    """

    @property
    def at_stored_dtype(self) -> bool:
        """Whether the update itself is rounded in a native merge."""

    def over(self, box: Box) -> Change:
        """Read what the box needs; what is given back changes any part of the box."""

    def inputs(self, box: Box) -> Iterator[Input]:
        """What of the adapter's tensors is read for the box."""


@dataclass(frozen=True, slots=True)
class LowRank:
    """`(left @ right) * scale`, of a Linear (B, A), a Conv1D or an Embedding (A, B, each transposed)."""

    left: LazyTensor  # [rows, r]
    right: LazyTensor  # [r, columns]
    scale: float
    at_stored_dtype: bool = False
    transposed: bool = (
        False  # both are stored the other way round, and PEFT transposes their product
    )

    def over(self, box: Box) -> Change:
        """Multiply window by window of rows; only the rows of the part are added."""
        if is_awkward(*self._shape):
            return self._at_once()
        rank, first = (0, self.right.spec.shape[0]), box[1][0]
        right = read_floats(self.right, (rank, box[1]))
        spans = windows(*box[0], self.left.spec.shape[0])
        lefts = {begin: read_floats(self.left, ((begin, end), rank)) for begin, end in spans}
        factor = np.float32(self.scale)
        folded = _is_exact(self.scale)
        if folded:
            lefts = {begin: left * factor for begin, left in lefts.items()}

        def change(sums: Sums, part: Box) -> None:
            (lo, hi), (begin, end) = part
            columns = right[:, begin - first : end - first]
            stop = lo
            for above, below in windows(lo, hi, self.left.spec.shape[0]):
                start, stop = max(stop, above), min(hi, below)  # what overlaps is added once
                product = multiply(lefts[above], columns)[start - above : stop - above]
                if not folded:
                    np.multiply(product, factor, out=product)
                sums[start - lo : stop - lo] += product

        return change

    @property
    def _shape(self) -> tuple[int, int]:
        """Rows and columns of the product as PEFT makes it."""
        rows, columns = self.left.spec.shape[0], self.right.spec.shape[1]
        return (columns, rows) if self.transposed else (rows, columns)

    def _at_once(self) -> Change:
        left, right = (read_floats(one, full(one.extent)) for one in (self.left, self.right))
        if self.transposed:
            product = multiply_by_torch(packed(right.T), packed(left.T)).T
        else:
            product = multiply_by_torch(left, right)
        product = product * np.float32(self.scale)

        def change(sums: Sums, part: Box) -> None:
            sums += product[tuple(slice(lo, hi) for lo, hi in part)]

        return change

    def inputs(self, box: Box) -> Iterator[Input]:
        """Both factors, as far as the box reaches; whole where they are multiplied at once."""
        if is_awkward(*self._shape):
            yield from (Input(one, full(one.extent)) for one in (self.left, self.right))
            return
        rank = (0, self.right.spec.shape[0])
        for window in windows(*box[0], self.left.spec.shape[0]):
            yield Input(self.left, (window, rank))
        yield Input(self.right, (rank, box[1]))


@dataclass(frozen=True, slots=True)
class Experts:
    """One low-rank update for every matrix of a stack: `einsum("ore,eri->eoi", B, A) * scale`.

    A is [E * r, in] with the expert slowest, B is [out, r * E] with the expert fastest; or [E, r, in] and
    [E, out, r]. `swapped` says that the stack is [E, in, out] and takes the transposed update. `only` picks
    one expert and `row` where the tensor begins in its matrix, for stacks that the base stores in pieces.
    """

    a: LazyTensor
    b: LazyTensor
    experts: int
    scale: float
    swapped: bool = False
    only: int | None = None
    row: int = 0
    at_stored_dtype: bool = True

    def over(self, box: Box) -> Change:
        """Expert by expert."""
        a = read_floats(self.a, full(self.a.extent))
        b = read_floats(self.b, full(self.b.extent))
        factor = np.float32(self.scale)
        sizes = b.shape[-2] if b.ndim == 3 else len(b), a.shape[-1]
        if a.ndim == 2 and is_awkward(*sizes, self.experts):
            return self._at_once(a, b)

        def one(sums: Sums, part: Box, expert: int) -> None:
            (lo, hi), (first, last) = part
            left, right = self._factors(a, b, expert)
            left = left[self.row + lo : self.row + hi]
            sums += multiply(packed(left), packed(right[:, first:last])) * factor

        def change(sums: Sums, part: Box) -> None:
            if self.only is not None:
                one(sums, part, self.only)
                return
            for number in range(*part[0]):
                one(sums[number - part[0][0]], part[1:], number)

        return change

    def inputs(self, box: Box) -> Iterator[Input]:
        """Both factors as a whole: experts are interleaved in B."""
        yield Input(self.a, full(self.a.extent))
        yield Input(self.b, full(self.b.extent))

    def _at_once(self, a: Floats, b: Floats) -> Change:
        stacked_a = a.reshape(self.experts, -1, a.shape[-1])
        stacked_b = b.reshape(len(b), -1, self.experts)
        whole = multiply_stack_by_torch(stacked_b, stacked_a, swapped=self.swapped)
        whole = whole * np.float32(self.scale)

        def change(sums: Sums, part: Box) -> None:
            if self.only is not None:
                (lo, hi), columns = part
                sums += whole[self.only, self.row + lo : self.row + hi, slice(*columns)]
            else:
                sums += whole[tuple(slice(lo, hi) for lo, hi in part)]

        return change

    def _factors(self, a: Floats, b: Floats, expert: int) -> tuple[Floats, Floats]:
        if a.ndim == 3:
            left, right = b[expert], a[expert]
        else:
            rank = len(a) // self.experts
            left, right = b[:, expert :: self.experts], a[expert * rank : (expert + 1) * rank]
        return (right.T, left.T) if self.swapped else (left, right)


@dataclass(frozen=True, slots=True)
class Added:
    """`tensor * scale`: the bias of a low-rank update, or a difference that is stored whole."""

    tensor: LazyTensor
    scale: float
    at_stored_dtype: bool = False

    def over(self, box: Box) -> Change:
        """Add what lies in the part."""
        whole = read_floats(self.tensor, box) * np.float32(self.scale)

        def change(sums: Sums, part: Box) -> None:
            sums += whole[within(part, box)]

        return change

    def inputs(self, box: Box) -> Iterator[Input]:
        """The same box."""
        yield Input(self.tensor, box)


@dataclass(frozen=True, slots=True)
class Rows:
    """Row `indices[i]` becomes row `i` of the tensor: trained tokens."""

    tensor: LazyTensor
    indices: tuple[int, ...]
    at_stored_dtype: bool = False

    def over(self, box: Box) -> Change:
        """Replace the rows that lie in the part."""
        rows = {
            row: read_floats(self.tensor, ((number, number + 1), *box[1:]))[0]
            for number, row in self._within(box)
        }

        def change(sums: Sums, part: Box) -> None:
            lo, hi = part[0]
            for row, values in rows.items():
                if lo <= row < hi:
                    sums[row - lo] = values[within(part[1:], box[1:])]

        return change

    def inputs(self, box: Box) -> Iterator[Input]:
        """The rows that lie in the box."""
        for number, _ in self._within(box):
            yield Input(self.tensor, ((number, number + 1), *box[1:]))

    def _within(self, box: Box) -> Iterator[tuple[int, int]]:
        lo, hi = box[0]
        return ((number, row) for number, row in enumerate(self.indices) if lo <= row < hi)


def read_floats(tensor: LazyTensor, box: Box) -> Floats:
    """A part of a tensor as float32; 16-bit values are widened, which is exact."""
    raw = np.empty(shape_of(box), tensor.spec.dtype.raw)
    tensor.fill(raw, box)
    values: Floats = raw.view(FLOATS[tensor.spec.dtype.code]).astype(np.float32, copy=False)
    return values


def _is_exact(scale: float) -> bool:
    """Whether a factor that is scaled by it gives the very product scaled: a power of two, not below one."""
    return scale >= 1 and math.frexp(scale)[0] == 0.5


def within(part: Box, box: Box) -> tuple[slice, ...]:
    """Where a part of a box lies in an array of the box."""
    pairs = zip(part, box, strict=True)
    return tuple(slice(lo - first, hi - first) for (lo, hi), (first, _) in pairs)


def packed(values: Floats) -> Floats:
    """The same values side by side in memory."""
    result: Floats = np.ascontiguousarray(values)
    return result


def all_inputs(updates: Sequence[Update], box: Box) -> Iterator[Input]:
    """What all the updates read for a box."""
    for update in updates:
        yield from update.inputs(box)
