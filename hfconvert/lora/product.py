"""The float32 product of low-rank factors, the same whoever asks for which part of it.

torch and numpy multiply alike, in one fused chain over the rank, but where the result is small or ragged:
there the BLAS of torch (MKL 2024.2 on AMD EPYC) takes ways of its own. Such products are left to torch, if it
is installed, so that merges equal those of PEFT bit for bit.
"""

from __future__ import annotations

import importlib.util
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

WINDOW = 256  # rows that are multiplied together: BLAS rounds short blocks differently
COLUMNS = 512  # and columns: what is between them stays in the processor's cache
_WIDTH = 16  # columns of the widest vector unit; odd ones would take another way through BLAS


_AT_ONCE = 1 << 20  # values that are multiplied at once by torch


def is_awkward(rows: int, columns: int, stack: int = 1) -> bool:
    """Whether torch, being installed, has to make the product of this shape (or the `stack` of them).

    Measured on shapes of 1 to 4096 rows and columns and ranks of 2 to 64: with 16 rows or more, and a
    multiple of 16 columns, torch and numpy agree to the bit.
    """
    ragged = min(rows, columns) < _WIDTH or columns % _WIDTH != 0
    return ragged and stack * rows * columns <= _AT_ONCE and _has_torch()


def multiply_by_torch(left: Floats, right: Floats) -> Floats:
    """`left @ right` as torch makes it."""
    import torch

    product: Floats = torch.matmul(torch.from_numpy(left), torch.from_numpy(right)).numpy()
    return product


def multiply_stack_by_torch(b: Floats, a: Floats, *, swapped: bool) -> Floats:
    """`einsum("ore,eri->eoi")` as torch makes it; [e, i, o] where `swapped`."""
    import torch

    result = "eio" if swapped else "eoi"
    factors = torch.from_numpy(b), torch.from_numpy(a)
    product: Floats = torch.einsum(f"ore,eri->{result}", *factors).contiguous().numpy()
    return product


@cache
def _has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def windows(lo: int, hi: int, size: int) -> list[tuple[int, int]]:
    """The rows to multiply so that rows `lo` to `hi` of `size` are among them.

    Windows begin at multiples of WINDOW; the last one overlaps backwards instead of being short.
    """
    starts = range(lo // WINDOW * WINDOW, hi, WINDOW)
    return [(max(0, min(start, size - WINDOW)), min(start + WINDOW, size)) for start in starts]


def multiply(left: Floats, right: Floats) -> Floats:
    """`left @ right`, every element by the same sequence of operations at any width."""
    width = right.shape[1]
    missing = -width % _WIDTH
    if missing:
        right = np.pad(right, ((0, 0), (0, missing)))
    with np.errstate(over="ignore", invalid="ignore"):  # counted where it is rounded
        product: Floats = np.matmul(left, right)
    return product[:, :width]
