"""The one form of every tensor between a source file and an output file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hfconvert.tensors.box import Box, Shape
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.source import ByteRange, ByteSource

RawArray = NDArray[Any]  # of `DType.raw`: unsigned integers, whatever the elements mean
Mesh = tuple[NDArray[np.int64], ...]  # one array of coordinates for every dimension


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Element type and shape of a tensor, as a safetensors header has them."""

    dtype: DType
    shape: Shape

    @property
    def elements(self) -> int:
        """How many elements; 1 for a tensor with no dimensions."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the packed data."""
        return self.dtype.nbytes(self.elements)

    def __str__(self) -> str:
        return f"{self.dtype} [{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Place:
    """Where some elements of a tensor lie in a source.

    Element (i, j, ...) of the mesh positions in `select` is element number `steps[0][i] + steps[1][j] + ...`
    counted in units of `itemsize` bytes from byte `start` of `source`. Positions in `select` increase.
    """

    source: ByteSource
    dtype: DType
    start: int
    itemsize: int
    steps: Mesh
    select: Mesh


class LazyTensor(Protocol):
    """A tensor that is made part by part, from nothing but the bytes that the part needs.

    Boxes and meshes are in units of `extent`: the shape, or one flat run of bytes where several elements
    share a byte. Blocks of it begin at multiples of `grain` along dimension 0. `scratch` is what it holds in
    memory beside the caller's block, in bytes.
    """

    @property
    def spec(self) -> TensorSpec:
        """Element type and shape."""

    @property
    def extent(self) -> Shape:
        """The shape in raw units."""

    @property
    def grain(self) -> int:
        """Blocks are cut at multiples of this along dimension 0."""

    @property
    def scratch(self) -> int:
        """Bytes held while a block is made, beside the block."""

    def fill(self, out: RawArray, box: Box) -> None:
        """Write the raw values of the box into `out`, which has the box's shape and may be strided."""

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """The byte ranges that `fill` reads for the box, without reading them."""

    def inputs(self, box: Box) -> Iterator[Input]:
        """The tensors that the box is made of, and what it takes of each; none where it lies in a source."""

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """Which element of which source each element of the mesh is; shares no code with `fill`."""


class Input(NamedTuple):
    """A tensor that another is made of, and the part that is taken of it."""

    tensor: LazyTensor
    box: Box


def needs_of_inputs(tensor: LazyTensor, box: Box) -> Iterator[ByteRange]:
    """The byte ranges that the inputs of a box need: the `needs` of every composed tensor."""
    for inner, part in tensor.inputs(box):
        yield from inner.needs(part)


def extent_of(spec: TensorSpec) -> Shape:
    """The extent of plain data: the shape, or a flat run of bytes for elements narrower than a byte."""
    return spec.shape if spec.dtype.bits % 8 == 0 else (spec.nbytes,)
