"""Nodes that make plain numbers of quantised weights: 4-bit codes, 8-bit integers, fp8 and mxfp4 in blocks.

Formats: `bitsandbytes.functional` (QuantState, dequantize_4bit, int8_vectorwise_dequant) of bitsandbytes
0.50; `integrations/finegrained_fp8.py` and `integrations/mxfp4.py` of transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hfconvert.dtypes.convert import FLOATS
from hfconvert.tensors.box import Box, Shape, full, shape_of
from hfconvert.tensors.dtype import DType
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

Floats = NDArray[np.float32]
_BLOCK = 16 << 20  # bytes: what numbers of one block take, wide

# What the codes of mxfp4 stand for; source: the OCP microscaling formats, E2M1.
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)


class Packing(Protocol):
    """How the numbers of a quantised weight are computed, row by row of the weight."""

    @property
    def shape(self) -> Shape:
        """The shape of the weight."""

    def rows(self, lo: int, hi: int) -> Floats:
        """Rows `lo` to `hi` along the first dimension, in float32."""

    def parts(self) -> Iterator[LazyTensor]:
        """The stored tensors that they are computed from."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A quantised weight as plain numbers: computed in float32, rounded once to `dtype`."""

    packing: Packing
    dtype: DType

    @property
    def spec(self) -> TensorSpec:
        """The shape of the weight and the dtype that it was quantised from."""
        return TensorSpec(self.dtype, self.packing.shape)

    @property
    def extent(self) -> Shape:
        """The shape."""
        return self.packing.shape

    @property
    def grain(self) -> int:
        """Any."""
        return 1

    @property
    def scratch(self) -> int:
        """The wide numbers of a block; rows are made whole."""
        return _BLOCK + 4 * prod(self.extent[1:])

    def fill(self, out: RawArray, box: Box) -> None:
        """Compute the rows of the box, take its columns, round."""
        wide = self.packing.rows(*box[0])[(slice(None), *(slice(lo, hi) for lo, hi in box[1:]))]
        narrow = np.ascontiguousarray(wide).astype(FLOATS[self.dtype.code])
        out[...] = narrow.view(self.dtype.raw)

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """All of the stored tensors."""
        return needs_of_inputs(self, box)

    def inputs(self, box: Box) -> Iterator[Input]:
        """All of the stored tensors: blocks of scales lie across rows."""
        for part in self.packing.parts():
            yield Input(part, full(part.extent))

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """In a source whose elements are computed one by one, by other code."""
        from hfconvert.lora.packed_elements import PackedElements  # noqa: PLC0415 - it needs these classes

        yield PackedElements(self.packing, self.dtype).place(mesh)


@dataclass(frozen=True, slots=True)
class FourBit:
    """Two codes a byte, the first in the high half; a code book; one scale for `blocksize` elements.

    Scales may be quantised themselves: codes of a second book, with scales of their own, and an offset.
    """

    packed: LazyTensor
    book: LazyTensor
    absmax: LazyTensor
    shape: Shape
    blocksize: int
    nested: Nested | None = None

    def rows(self, lo: int, hi: int) -> Floats:
        """Codes looked up, times the scale of their block."""
        width = prod(self.shape[1:])
        first, last = lo * width, hi * width
        start = first // 2
        codes = read(self.packed, start, (last + 1) // 2)
        pair = np.stack((codes >> 4, codes & 15), axis=1).reshape(-1)
        numbers = read(self.book).view(np.float32)[pair[first - 2 * start :][: last - first]]
        block = first // self.blocksize
        scales = self._scales(block, -(-last // self.blocksize))
        each = np.repeat(scales, self.blocksize)[first - block * self.blocksize :]
        result: Floats = (numbers * each[: last - first]).reshape(hi - lo, *self.shape[1:])
        return result

    def parts(self) -> Iterator[LazyTensor]:
        """Codes, book and scales."""
        yield from (self.packed, self.book, self.absmax)
        if self.nested:
            yield from (self.nested.book, self.nested.absmax)

    def _scales(self, lo: int, hi: int) -> Floats:
        stored = read(self.absmax, lo, hi)
        if self.nested is None:
            return stored.view(np.float32)
        nested = self.nested
        outer = read(nested.absmax).view(np.float32)
        numbers = read(nested.book).view(np.float32)[stored]
        scales = numbers * outer[np.arange(lo, hi) // nested.blocksize]
        result: Floats = scales + np.float32(nested.offset)
        return result


@dataclass(frozen=True, slots=True)
class Nested:
    """Scales that are quantised: their code book, their own scales, and what is added."""

    book: LazyTensor
    absmax: LazyTensor
    blocksize: int
    offset: float


@dataclass(frozen=True, slots=True)
class Int8Rows:
    """Integers times the scale of their row over 127."""

    stored: LazyTensor
    scales: LazyTensor

    @property
    def shape(self) -> Shape:
        """That of the integers."""
        return self.stored.spec.shape

    def rows(self, lo: int, hi: int) -> Floats:
        """In the order of operations of bitsandbytes."""
        box = ((lo, hi), *full(self.shape[1:]))
        raw = np.empty(shape_of(box), np.uint8)
        self.stored.fill(raw, box)
        scales = read(self.scales, lo, hi).view(np.float32)[:, None]
        result: Floats = raw.view(np.int8).astype(np.float32) * scales * np.float32(INVERSE_127)
        return result

    def parts(self) -> Iterator[LazyTensor]:
        """Integers and scales."""
        yield from (self.stored, self.scales)


INVERSE_127 = 7.874015718698502e-3


@dataclass(frozen=True, slots=True)
class Blocks:
    """fp8 numbers times one scale for each block of rows and columns."""

    stored: LazyTensor
    scales: LazyTensor
    block: tuple[int, int]

    @property
    def shape(self) -> Shape:
        """That of the numbers."""
        return self.stored.spec.shape

    def rows(self, lo: int, hi: int) -> Floats:
        """Every number times the scale of its block."""
        box = ((lo, hi), *full(self.shape[1:]))
        raw = np.empty(shape_of(box), self.stored.spec.dtype.raw)
        self.stored.fill(raw, box)
        numbers = raw.view(FLOATS[self.stored.spec.dtype.code]).astype(np.float32)
        kind = FLOATS[self.scales.spec.dtype.code]
        whole = read(self.scales).view(kind).astype(np.float32).reshape(self.scales.spec.shape)
        high, wide = self.block
        scales = whole[np.arange(lo, hi) // high][:, np.arange(self.shape[1]) // wide]
        result: Floats = numbers * scales
        return result

    def parts(self) -> Iterator[LazyTensor]:
        """Numbers and scales."""
        yield from (self.stored, self.scales)


@dataclass(frozen=True, slots=True)
class Microscaled:
    """mxfp4 of experts: two codes a byte, the first in the low half; a power of two for 32 of them.

    Stored as [experts, out, groups, 16] and [experts, out, groups]; the weight is [experts, in, out].
    """

    stored: LazyTensor
    scales: LazyTensor

    @property
    def shape(self) -> Shape:
        """[experts, in, out]."""
        experts, out, groups, half = self.stored.spec.shape
        return (experts, groups * half * 2, out)

    def rows(self, lo: int, hi: int) -> Floats:
        """Expert by expert: codes looked up, moved by their exponent, turned."""
        experts = []
        for number in range(lo, hi):
            codes = read(self.stored, number, number + 1)[0]
            exponents = read(self.scales, number, number + 1)[0].astype(np.int32) - 127
            pair = np.stack((codes & 15, codes >> 4), axis=-1).reshape(*codes.shape[:-1], -1)
            numbers = np.ldexp(FP4[pair], exponents[..., None])
            experts.append(numbers.reshape(len(codes), -1).T)
        result: Floats = np.stack(experts)
        return result

    def parts(self) -> Iterator[LazyTensor]:
        """Codes and exponents."""
        yield from (self.stored, self.scales)


def read(tensor: LazyTensor, lo: int = 0, hi: int | None = None) -> NDArray[Any]:
    """Raw values of a tensor, from `lo` to `hi` along its first dimension; [n, 1] reads as [n]."""
    extent = tensor.extent
    box = ((lo, extent[0] if hi is None else min(hi, extent[0])), *full(extent[1:]))
    raw = np.empty(shape_of(box), tensor.spec.dtype.raw)
    tensor.fill(raw, box)
    return raw[:, 0] if raw.ndim == 2 and raw.shape[1] == 1 else raw
