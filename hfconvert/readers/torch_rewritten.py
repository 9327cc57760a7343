"""Tensors whose stored bits are not their values: other byte order, or lazily conjugated or negated.

torch keeps conjugation and negation as a flag of the view (`torch.Tensor.is_conj`, `is_neg`); a checkpoint
can hold both. Resolving them is exact: it flips sign bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hfconvert.tensors.box import Box, Shape
from hfconvert.tensors.lazy import Input, LazyTensor, Mesh, Place, RawArray, TensorSpec
from hfconvert.tensors.source import ByteRange


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The inner tensor with its bytes swapped, its imaginary parts negated, or its values negated."""

    inner: LazyTensor
    swapped: bool = False
    conj: bool = False
    neg: bool = False

    @property
    def spec(self) -> TensorSpec:
        """That of the inner tensor."""
        return self.inner.spec

    @property
    def extent(self) -> Shape:
        """That of the inner tensor."""
        return self.inner.extent

    @property
    def grain(self) -> int:
        """That of the inner tensor."""
        return self.inner.grain

    @property
    def scratch(self) -> int:
        """That of the inner tensor; its block is rewritten in place."""
        return self.inner.scratch

    def fill(self, out: RawArray, box: Box) -> None:
        """Fill from the inner tensor, then rewrite in place."""
        self.inner.fill(out, box)
        kind, bits = self.spec.dtype.kind, self.spec.dtype.bits
        if self.swapped:
            _swap(out, halves=kind == "complex")
        if self.conj and kind == "complex":
            _flip(out, _mask(bits, 1))
        if self.neg:
            _negate(out, kind, bits)

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """Those of the inner tensor."""
        return self.inner.needs(box)

    def inputs(self, box: Box) -> Iterator[Input]:
        """The same box of the inner tensor."""
        yield Input(self.inner, box)

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """Places in a source that gives the values, so that they compare as those of any other tensor."""
        for place in self.inner.where(mesh):
            yield replace(place, source=_Values(self, place))


def _mask(bits: int, parts: int) -> int:
    """The sign bits of a number: the highest, or that of both parts of a complex number."""
    high = 1 << (bits - 1)
    return high if parts == 1 else high | 1 << (bits // 2 - 1)


def _swap(out: RawArray, *, halves: bool) -> None:
    out.byteswap(inplace=True)
    if halves:
        half = out.dtype.type(out.dtype.itemsize * 4)
        out[...] = (out >> half) | (out << half)


def _flip(out: RawArray, mask: int) -> None:
    np.bitwise_xor(out, out.dtype.type(mask), out=out)


def _negate(out: RawArray, kind: str, bits: int) -> None:
    if kind in ("complex", "float"):
        _flip(out, _mask(bits, 2 if kind == "complex" else 1))
    else:
        np.negative(out, out=out)


@dataclass(frozen=True, slots=True)
class _Values:
    """A source of the values of a Rewritten tensor, by bytes and not by numbers: it checks the other way.

    Reads begin at whole elements of `width` bytes, as those of a Place do.
    """

    tensor: Rewritten
    place: Place

    @property
    def name(self) -> str:
        return self.place.source.name

    @property
    def size(self) -> int:
        return self.place.source.size

    def readinto(self, buffer: memoryview, offset: int) -> None:
        self.place.source.readinto(buffer, offset)
        tensor, dtype = self.tensor, self.tensor.spec.dtype
        parts = 2 if dtype.kind == "complex" else 1
        octets = np.frombuffer(buffer, np.uint8).reshape(-1, parts, dtype.itemsize // parts)
        if tensor.swapped:
            octets[...] = octets[..., ::-1].copy()
        if tensor.conj and parts == 2:
            octets[:, 1, -1] ^= 0x80
        if tensor.neg and dtype.kind in ("float", "complex"):
            octets[:, :, -1] ^= 0x80
        elif tensor.neg:
            whole = octets.reshape(-1, dtype.itemsize).view(f"<i{dtype.itemsize}")
            whole *= -1

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        self.place.source.stage(ranges)
