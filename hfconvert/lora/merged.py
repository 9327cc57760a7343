"""The node that merges: base and updates summed in float32, rounded once to the dtype that is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hfconvert.dtypes.convert import FLOATS, convert
from hfconvert.lora.product import COLUMNS, WINDOW
from hfconvert.lora.updates import Change, Sums, Update, all_inputs
from hfconvert.tensors.box import Box, Shape, shape_of
from hfconvert.tensors.dtype import BY_CODE, DType
from hfconvert.tensors.lazy import (
    Input,
    LazyTensor,
    Mesh,
    Place,
    RawArray,
    TensorSpec,
    needs_of_inputs,
)
from hfconvert.tensors.source import ByteRange
from hfconvert.tensors.tally import Loss, Tally

F32 = BY_CODE["F32"]
_BLOCK = 8 << 20  # bytes: what a worker holds beside its block, for rows of usual length


@dataclass(frozen=True, slots=True)
class Merged:
    """`round(float32(base) + updates)`; what does not fit the dtype is counted in `tally` under `name`.

    With `native` every update is added at the base's own dtype, rounded each time, as PEFT does it.
    Without updates it is the base, cast.
    """

    base: LazyTensor
    updates: tuple[Update, ...]
    dtype: DType
    name: str
    tally: Tally
    native: bool = False

    @property
    def spec(self) -> TensorSpec:
        """The shape of the base, the dtype that is written."""
        return TensorSpec(self.dtype, self.base.spec.shape)

    @property
    def extent(self) -> Shape:
        """That of the base."""
        return self.base.extent

    @property
    def grain(self) -> int:
        """Whole windows of rows, so that none is multiplied twice."""
        return max(self.base.grain, WINDOW if len(self.extent) == 2 and self.updates else 1)

    @property
    def scratch(self) -> int:
        """The block as it is read and as it is summed, and the factors."""
        row = int(np.prod(self.extent[1:], dtype=np.int64)) if len(self.extent) > 1 else 1
        return self.base.scratch + max(_BLOCK, 2 * self.grain * row * 4)

    def rounded_to(self, dtype: DType) -> Merged:
        """The same sum rounded to another dtype, once."""
        return replace(self, dtype=dtype)

    def fill(self, out: RawArray, box: Box) -> None:
        """Read the base, add every update, round."""
        raw = out
        if self.base.spec.dtype.raw != out.dtype or not out.flags.c_contiguous:
            raw = np.empty(shape_of(box), self.base.spec.dtype.raw)
        self.base.fill(raw, box)
        changes = [(update, update.over(box)) for update in self.updates]
        for part, inner in _parts(box):
            sums = self._widened(raw[part])
            for update, change in changes:
                self._apply(update, change, sums, inner)
            lost = self._lost(sums, raw[part])
            out[part] = self._rounded(sums, lost)

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """What base and updates need."""
        return needs_of_inputs(self, box)

    def inputs(self, box: Box) -> Iterator[Input]:
        """The base and what the updates read."""
        yield Input(self.base, box)
        yield from all_inputs(self.updates, box)

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """Where the values of the base are, if they are only cast; a sum lies nowhere."""
        return iter(()) if self.updates else self.base.where(mesh)

    def _widened(self, raw: RawArray) -> Sums:
        """As float32; float64 stays."""
        values = np.ascontiguousarray(raw).view(FLOATS[self.base.spec.dtype.code])
        return values.astype(np.float64 if values.dtype == np.float64 else np.float32)

    def _apply(self, update: Update, change: Change, sums: Sums, box: Box) -> None:
        if not (self.native and update.at_stored_dtype):
            change(sums, box)
        else:
            delta = np.zeros_like(sums)
            change(delta, box)
            sums += self._at_stored_dtype(delta)
        if self.native:
            sums[...] = self._at_stored_dtype(sums)

    def _lost(self, sums: Sums, raw: RawArray) -> int:
        """How many values an update made infinite or NaN; they are looked for only where there are some."""
        if not self.updates or not sums.size or np.isfinite(sums.max() - sums.min()):
            return 0
        before = np.isfinite(self._widened(raw))
        return int(np.count_nonzero(before & ~np.isfinite(sums)))

    def _at_stored_dtype(self, sums: Sums) -> Sums:
        stored = FLOATS[self.base.spec.dtype.code]
        with np.errstate(over="ignore", invalid="ignore"):
            return sums.astype(stored).astype(sums.dtype)

    def _rounded(self, sums: Sums, lost: int) -> RawArray:
        """Round once, and count what the dtype cannot hold."""
        kind = BY_CODE["F64"] if sums.dtype == np.float64 else F32
        if kind is F32 and self.dtype.code == "BF16" and _fits_bf16(sums):
            self.tally.add(self.name, Loss(lost, 0, sums.size))
            rounded: RawArray = sums.astype(FLOATS["BF16"]).view(self.dtype.raw)
            return rounded
        result, loss = convert(sums.reshape(-1).view(kind.raw), kind, self.dtype)
        self.tally.add(self.name, loss._replace(overflow=loss.overflow + lost))
        return result.reshape(sums.shape)


def _fits_bf16(sums: Sums) -> bool:
    """Whether no value rounds to infinity; none can round to zero, the exponents being those of float32."""
    return not sums.size or bool(max(sums.max(), -sums.min()) < _BF16_OVERFLOW)


_BF16_OVERFLOW = float.fromhex("0x1.ffp127")


def _parts(box: Box) -> Iterator[tuple[tuple[slice, ...], Box]]:
    """A matrix in runs of columns that stay in the processor's cache; anything else as a whole."""
    if len(box) != 2:
        yield tuple(slice(0, hi - lo) for lo, hi in box), box
        return
    (lo, hi), (first, last) = box
    for start in range(first // COLUMNS * COLUMNS, last, COLUMNS):
        begin, end = max(start, first), min(start + COLUMNS, last)
        yield (slice(0, hi - lo), slice(begin - first, end - first)), ((lo, hi), (begin, end))
