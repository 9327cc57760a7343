"""Elements of quantised weights one by one: what the `tensors` check holds the plain numbers against.

Shares no code with the nodes that compute them: every element is found by its own number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from hfconvert.lora.packed import Blocks, FourBit, Int8Rows, Microscaled, Packing
from hfconvert.tensors.box import Box, Shape, full
from hfconvert.tensors.computed import elements_at, place_in
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.lazy import LazyTensor, Mesh, Place, RawArray

Numbers = NDArray[np.int64]

_TYPES: dict[str, Any] = {
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "U8": np.uint8,
    "I8": np.int8,
}


@dataclass(frozen=True, slots=True)
class PackedElements:
    """The plain numbers of a quantised weight, each computed by itself."""

    packing: Packing
    dtype: DType

    @property
    def shape(self) -> Shape:
        """The shape of the weight."""
        return self.packing.shape

    def place(self, mesh: Mesh) -> Place:
        """Where the elements of the mesh are, in a source that computes them."""
        return place_in(self, "dequantized", mesh)

    def values(self, box: Box) -> RawArray:
        """The raw values of a box."""
        axes = np.ix_(*(np.arange(lo, hi) for lo, hi in box))
        numbers = _NUMBERS[type(self.packing)](self.packing, axes)
        narrow = numbers.astype(np.float32).astype(_TYPES[self.dtype.code])
        raw: RawArray = narrow.view(self.dtype.raw)
        return raw


def _four_bit(packing: FourBit, axes: tuple[Numbers, ...]) -> NDArray[np.float32]:
    strides = [int(np.prod(packing.shape[axis + 1 :], dtype=np.int64)) for axis in range(len(axes))]
    flat = sum(
        (axis * stride for axis, stride in zip(axes, strides, strict=True)), np.zeros(1, np.int64)
    )
    byte = _at(packing.packed, flat // 2)
    code = np.where(flat % 2 == 0, byte // 16, byte % 16)
    block = flat // packing.blocksize
    scale = _at(packing.absmax, block)
    if packing.nested is not None:
        inner = packing.nested
        outer = _all(inner.absmax)[block // inner.blocksize]
        scale = _all(inner.book)[scale] * outer + np.float32(inner.offset)
    product: NDArray[np.float32] = _all(packing.book)[code] * scale
    return product


def _int8(packing: Int8Rows, axes: tuple[Numbers, ...]) -> NDArray[np.float32]:
    rows, columns = axes
    stored = _at(packing.stored, rows, columns).astype(np.float32)
    scaled: NDArray[np.float32] = stored * _at(packing.scales, rows) * np.float32(1 / 127)
    return scaled


def _blocks(packing: Blocks, axes: tuple[Numbers, ...]) -> NDArray[np.float32]:
    rows, columns = axes
    high, wide = packing.block
    stored = _at(packing.stored, rows, columns).astype(np.float32)
    product: NDArray[np.float32] = stored * _all(packing.scales)[
        rows // high, columns // wide
    ].astype(np.float32)
    return product


def _microscaled(packing: Microscaled, axes: tuple[Numbers, ...]) -> NDArray[np.float32]:
    expert, column, row = axes
    byte = _at(packing.stored, expert, row, column // 32, column % 32 // 2)
    code = np.where(column % 2 == 0, byte % 16, byte // 16).astype(np.int64)
    magnitude = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[code % 8]
    exponent = _at(packing.scales, expert, row, column // 32).astype(np.float64) - 127
    signed = np.where(code >= 8, -magnitude, magnitude) * 2.0**exponent
    return signed.astype(np.float32)


_NUMBERS: dict[type, Any] = {
    FourBit: _four_bit,
    Int8Rows: _int8,
    Blocks: _blocks,
    Microscaled: _microscaled,
}


def _all(tensor: LazyTensor) -> NDArray[Any]:
    """All the values of a stored tensor, by `where`."""
    raw = elements_at(tensor, full(tensor.extent))
    return raw.view(_TYPES[tensor.spec.dtype.code])


def _at(tensor: LazyTensor, first: Numbers, *others: Numbers) -> NDArray[Any]:
    """Values at coordinates; of the first dimension only the range that they span is read."""
    lo, hi = int(first.min()), int(first.max()) + 1
    raw = elements_at(tensor, ((lo, hi), *full(tensor.extent[1:])))
    values = raw.view(_TYPES[tensor.spec.dtype.code])
    if not others:
        values = values.reshape(-1)
    picked: NDArray[Any] = values[(first - lo, *others)]
    return picked
