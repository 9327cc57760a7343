"""Whether the shapes and dtypes of tensors are those that a step needs."""

from __future__ import annotations

from collections.abc import Sequence

from hfconvert.keymap.made import UnfitError
from hfconvert.tensors.lazy import LazyTensor


def size_along(tensor: LazyTensor, dim: int) -> int:
    """The size of a dimension. UnfitError where there is none."""
    extent = tensor.extent
    if dim < len(extent):
        return extent[dim]
    raise UnfitError(
        f"{tensor.spec} has no dimension {dim}",
        why="dimensions are counted from 0; biases and norms have fewer than weights",
        do="mend `dim`, or narrow the pattern",
    )


def check_new_dim(tensor: LazyTensor, dim: int) -> None:
    """UnfitError where a new dimension cannot have that place."""
    if dim > len(tensor.extent):
        raise UnfitError(
            f"{tensor.spec} cannot get a new dimension {dim}",
            why="the new dimension stands at most behind the last",
            do="mend `dim`",
        )


def check_same(tensors: Sequence[LazyTensor]) -> None:
    """UnfitError where dtypes or shapes differ."""
    specs = list(dict.fromkeys(tensor.spec for tensor in tensors))
    if len(specs) > 1:
        raise UnfitError(
            f"they are of different kinds: {', '.join(map(str, specs[:4]))}",
            why="the pattern takes in tensors that do not belong together",
            do="narrow the pattern",
        )


def check_alike(tensors: Sequence[LazyTensor], dim: int) -> None:
    """UnfitError where tensors cannot lie side by side along `dim`: dtypes, or other sizes, differ."""
    for tensor in tensors:
        size_along(tensor, dim)
    kinds = {
        (tensor.spec.dtype, *tensor.extent[:dim], -1, *tensor.extent[dim + 1 :])
        for tensor in tensors
    }
    if len(kinds) > 1:
        specs = dict.fromkeys(str(tensor.spec) for tensor in tensors)
        raise UnfitError(
            f"they cannot lie side by side along dimension {dim}: {', '.join(list(specs)[:4])}",
            why="dtypes or sizes along the other dimensions differ",
            do="mend `dim` or the patterns",
        )
