"""The float32 product of low-rank factors, the same whoever asks for which part of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

WINDOW = 256  # rows that are multiplied together: BLAS rounds short blocks differently
COLUMNS = 512  # and columns: what is between them stays in the processor's cache
_WIDTH = 16  # columns of the widest vector unit; odd ones would take another way through BLAS


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
    product: Floats = np.matmul(left, right)
    return product[:, :width]
