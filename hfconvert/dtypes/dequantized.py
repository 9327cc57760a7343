"""The node that makes plain numbers of torch's quantised tensors, equal to `torch.Tensor.dequantize()`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfconvert.tensors.box import Box, Shape, full, shape_of
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import Input, LazyTensor, Mesh, Place, RawArray, TensorSpec
from hfconvert.tensors.quantized_elements import QuantizedElements
from hfconvert.tensors.source import ByteRange
from hfconvert.tensors.unreadable import Quantized, Unreadable

BLOCK = 4 << 20  # bytes: about what the wide numbers of one block take
_INTEGERS = {"I8": np.int8, "U8": np.uint8, "I32": np.int32}
_FLOATS = {"F32": np.float32, "F64": np.float64}
DTYPE = BY_CODE["F32"]


@dataclass(frozen=True, slots=True)
class Dequantized:
    """A quantised tensor as fp32: `(q - zero_point) * scale`.

    One scale for the tensor is rounded to fp32 before it multiplies; scales of channels multiply in fp64, and
    the product is rounded once; where zero points are floats, all is done in fp32. So does torch.
    """

    inner: Unreadable
    detail: Quantized
    name: str

    @property
    def spec(self) -> TensorSpec:
        """fp32, in the shape of the quantised tensor."""
        return TensorSpec(DTYPE, self.inner.spec.shape)

    @property
    def extent(self) -> Shape:
        """The shape."""
        return self.spec.shape

    @property
    def grain(self) -> int:
        """Any."""
        return 1

    @property
    def scratch(self) -> int:
        """What reading the integers takes, and the wide numbers of a block."""
        return self.detail.stored.scratch + BLOCK

    def fill(self, out: RawArray, box: Box) -> None:
        """Read the integers of the box, and compute."""
        stored = self.detail.stored
        raw = np.empty(shape_of(box), stored.spec.dtype.raw)
        stored.fill(raw, box)
        integers = raw.view(_INTEGERS[stored.spec.dtype.code])
        out[...] = self._real(integers, box).view(DTYPE.raw)

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """The integers of the box; the scales and zero points of all channels."""
        yield from self.detail.stored.needs(box)
        for part in _tensors(self.detail):
            yield from part.needs(full(part.extent))

    def inputs(self, box: Box) -> Iterator[Input]:
        """The same box of the quantised tensor."""
        yield Input(self.inner, box)

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """In a source whose elements are computed one by one, by other code."""
        yield QuantizedElements(self.detail, self.name).place(mesh)

    def _real(self, integers: NDArray[Any], box: Box) -> NDArray[np.float32]:
        detail = self.detail
        if detail.axis is None:
            zero = np.int64(_number(detail.zero_point))
            real: NDArray[np.float32] = (integers.astype(np.int64) - zero).astype(np.float32)
            real *= np.float32(_number(detail.scale))
            return real
        scale = self._along(detail.scale, box)
        zeros = self._along(detail.zero_point, box)
        if zeros.dtype.kind == "f":
            real = integers.astype(np.float32)
            real -= zeros
            real *= scale
            return real
        product: NDArray[np.float64] = (integers.astype(np.int64) - zeros) * scale
        return product.astype(np.float32)

    def _along(self, values: float | LazyTensor, box: Box) -> NDArray[Any]:
        """The scales or zero points of the channels of a box, shaped to be broadcast over it."""
        axis = self.detail.axis or 0
        if isinstance(values, (int, float)):
            raise TypeError(values)
        part = (box[axis],)
        raw = np.empty(shape_of(part), values.spec.dtype.raw)
        values.fill(raw, part)
        kind = _FLOATS.get(values.spec.dtype.code, np.int64)
        shape = [1] * len(box)
        shape[axis] = len(raw)
        return raw.view(kind).reshape(shape)


def unfit(tensor: Unreadable) -> str:
    """Why a quantised tensor cannot be dequantized here; nothing where it can."""
    detail = tensor.detail
    if not isinstance(detail, Quantized):
        return "its quantiser is of an unknown form"
    if detail.stored.spec.dtype.code not in _INTEGERS or isinstance(detail.stored, Unreadable):
        return f"its elements are {tensor.spec.dtype}, several in a byte, or cannot be read"
    if detail.axis is None:
        return "" if not _tensors(detail) else "its quantiser is of an unknown form"
    shape = tensor.spec.shape
    channels = shape[detail.axis] if 0 <= detail.axis < len(shape) else -1
    fits = [_is_channel(part, channels) for part in _tensors(detail)]
    return "" if fits == [True, True] else "its scales or zero points do not fit its channels"


def _is_channel(part: LazyTensor, channels: int) -> bool:
    known = part.spec.dtype.code in ("F32", "F64", "I64")
    return known and part.spec.shape == (channels,) and not isinstance(part, Unreadable)


def _tensors(detail: Quantized) -> list[LazyTensor]:
    return [
        part for part in (detail.scale, detail.zero_point) if not isinstance(part, (int, float))
    ]


def _number(value: float | LazyTensor) -> float:
    if isinstance(value, (int, float)):
        return value
    raise TypeError(value)
