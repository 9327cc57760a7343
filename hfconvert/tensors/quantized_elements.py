"""Elements of quantised tensors: what the `tensors` check holds the result of `dequantize` against.

`real = (q - zero_point) * scale`, as torch computes it: one scale for all is rounded to fp32 first, scales of
channels are fp64. Shares no code with the node that computes the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfconvert.tensors.box import Box, Shape
from hfconvert.tensors.computed import elements_at, place_in
from hfconvert.tensors.dtype import BY_CODE, DType
from hfconvert.tensors.lazy import LazyTensor, Mesh, Place, RawArray
from hfconvert.tensors.unreadable import Quantized

_CODES = {"I8": "i1", "U8": "u1", "I32": "<i4", "I64": "<i8", "F32": "<f4", "F64": "<f8"}


@dataclass(frozen=True, slots=True)
class QuantizedElements:
    """The real numbers that a quantised tensor stands for."""

    detail: Quantized
    name: str

    @property
    def dtype(self) -> DType:
        """fp32."""
        return BY_CODE["F32"]

    @property
    def shape(self) -> Shape:
        """That of the stored integers."""
        return self.detail.stored.spec.shape

    def place(self, mesh: Mesh) -> Place:
        """Where the elements of the mesh are, in a source that computes them."""
        return place_in(self, f"{self.name} (dequantized)", mesh)

    def values(self, box: Box) -> RawArray:
        """The raw values of a box, channel by channel where the channels have scales of their own."""
        detail = self.detail
        stored = _numbers(detail.stored, box)
        if detail.axis is None:
            return _raw(_of_tensor(stored, detail))
        out = np.empty(stored.shape, np.float32)
        channels = (box[detail.axis],)
        scales, zeros = (
            _numbers(part, channels)
            for part in (detail.scale, detail.zero_point)
            if not isinstance(part, (int, float))
        )
        for number, (scale, zero) in enumerate(zip(scales, zeros, strict=True)):
            at = (slice(None),) * detail.axis + (number,)
            out[at] = _of_channel(stored[at], scale, zero)
        return _raw(out)


def _of_tensor(stored: NDArray[Any], detail: Quantized) -> NDArray[np.float32]:
    """Differences and the scale in fp32; the product of two such numbers is exact in fp64."""
    if not isinstance(detail.scale, (int, float)) or not isinstance(detail.zero_point, int):
        raise TypeError(detail)
    differences = (stored.astype(np.float64) - detail.zero_point).astype(np.float32)
    return (differences.astype(np.float64) * float(np.float32(detail.scale))).astype(np.float32)


def _of_channel(stored: NDArray[Any], scale: Any, zero: Any) -> NDArray[np.float32]:
    if isinstance(zero, np.floating):
        differences = stored.astype(np.float32) - np.float32(zero)
        return (differences.astype(np.float64) * float(scale)).astype(np.float32)
    return ((stored.astype(np.float64) - float(zero)) * float(scale)).astype(np.float32)


def _numbers(tensor: LazyTensor, box: Box) -> NDArray[Any]:
    return elements_at(tensor, box).view(_CODES[tensor.spec.dtype.code])


def _raw(values: NDArray[np.float32]) -> RawArray:
    return values.view(np.uint32)
