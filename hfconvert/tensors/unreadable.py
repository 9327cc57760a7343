"""A tensor that is known by name but cannot be read as it is; no error as long as nothing reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from hfconvert.errors import Problem, UserError
from hfconvert.tensors.box import Box, Shape
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.lazy import Input, LazyTensor, Mesh, Place, RawArray, TensorSpec, extent_of
from hfconvert.tensors.source import ByteRange

UNKNOWN = DType("unknown", 8, "packed", "", stored=False)


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse tensor: torch's name of the layout, and the tensors it is made of (values last)."""

    layout: str
    indices: tuple[LazyTensor, ...]
    values: LazyTensor


@dataclass(frozen=True, slots=True)
class Quantized:
    """A quantised tensor: real value = (stored - zero point) * scale, along `axis` where there is one.

    `stored` holds the integers. Scales and zero points are numbers, or tensors of one element a channel.
    """

    scheme: str
    stored: LazyTensor
    scale: float | LazyTensor
    zero_point: int | LazyTensor
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Listed with what is known of it; reading it raises UserError with `problem`.

    `detail` is a Sparse or Quantized for the steps that can make a plain tensor of it, else a description.
    """

    spec: TensorSpec
    problem: Problem
    detail: Any = None
    grain: int = 1
    scratch: int = 0

    @property
    def extent(self) -> Shape:
        """The shape in raw units."""
        return extent_of(self.spec)

    def fill(self, out: RawArray, box: Box) -> NoReturn:  # the form of every lazy tensor
        """UserError with the problem."""
        raise UserError(self.problem)

    def needs(self, box: Box) -> Iterator[ByteRange]:  # the form of every lazy tensor
        """Nothing: it is never read."""
        return iter(())

    def inputs(self, box: Box) -> Iterator[Input]:  # the form of every lazy tensor
        """Nothing: it is made of nothing else."""
        return iter(())

    def where(self, mesh: Mesh) -> Iterator[Place]:  # the form of every lazy tensor
        """Nothing: it lies nowhere."""
        return iter(())
