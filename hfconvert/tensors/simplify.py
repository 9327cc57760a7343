"""Compositions without what cancels out: a part of parts, parts that make up a whole again.

They give the same values as the nodes themselves; there is less to walk through for every block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hfconvert.tensors.assemble import Assemble, Lift
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.window import Select, Window


class _Piece(NamedTuple):
    """Indices `lo` to `hi` of a tensor along the dimension in question."""

    tensor: LazyTensor
    lo: int
    hi: int


def window(tensor: LazyTensor, dim: int, lo: int, hi: int) -> LazyTensor:
    """Indices `lo` to `hi` of dimension `dim`."""
    if (lo, hi) == (0, tensor.extent[dim]):
        return tensor
    if isinstance(tensor, Window) and tensor.dim == dim:
        return window(tensor.inner, dim, tensor.lo + lo, tensor.lo + hi)
    if isinstance(tensor, Assemble) and tensor.dim == dim and lo < hi:
        begin, found = 0, []
        for part in tensor.parts:
            end = begin + part.extent[dim]
            if max(lo, begin) < min(hi, end):
                found.append(window(part, dim, max(lo, begin) - begin, min(hi, end) - begin))
            begin = end
        return side_by_side(found, dim)
    return Window(tensor, dim, lo, hi)


def select(tensor: LazyTensor, dim: int, index: int) -> LazyTensor:
    """One index of dimension `dim`, which is gone."""
    if isinstance(tensor, Window) and tensor.dim == dim:
        return select(tensor.inner, dim, tensor.lo + index)
    if isinstance(tensor, Lift) and tensor.dim == dim:
        return tensor.inner
    if isinstance(tensor, Assemble) and tensor.dim == dim:
        begin = 0
        for part in tensor.parts:
            if index < begin + part.extent[dim]:
                return select(part, dim, index - begin)
            begin += part.extent[dim]
    return Select(tensor, dim, index)


def side_by_side(tensors: Sequence[LazyTensor], dim: int) -> LazyTensor:
    """Tensors side by side along `dim`; parts of one tensor that follow each other become one part."""
    pieces: list[_Piece] = []
    for piece in (_piece(tensor, dim) for tensor in tensors):
        last = pieces[-1] if pieces else None
        if last is not None and last.tensor is piece.tensor and last.hi == piece.lo:
            pieces[-1] = _Piece(last.tensor, last.lo, piece.hi)
        else:
            pieces.append(piece)
    parts = tuple(
        Window(piece.tensor, dim, piece.lo, piece.hi)
        if (piece.lo, piece.hi) != (0, piece.tensor.extent[dim])
        else piece.tensor
        for piece in pieces
    )
    return parts[0] if len(parts) == 1 else Assemble(parts, dim)


def stacked(tensors: Sequence[LazyTensor], dim: int) -> LazyTensor:
    """Tensors of one shape along a new dimension `dim`."""
    return side_by_side([Lift(tensor, dim) for tensor in tensors], dim)


def _piece(tensor: LazyTensor, dim: int) -> _Piece:
    if isinstance(tensor, Window) and tensor.dim == dim:
        return _Piece(tensor.inner, tensor.lo, tensor.hi)
    inner = tensor.inner if isinstance(tensor, Lift) and tensor.dim == dim else None
    if isinstance(inner, Select) and inner.dim == dim:
        return _Piece(inner.inner, inner.index, inner.index + 1)
    return _Piece(tensor, 0, tensor.extent[dim])
