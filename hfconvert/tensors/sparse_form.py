"""How sparse tensors of torch are laid out: the slots that entries stand in, and what fills a slot."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hfconvert.tensors.box import Shape
from hfconvert.tensors.dtype import STORED
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.unreadable import Sparse, Unreadable

COO = "torch.sparse_coo"
BY_ROWS = ("torch.sparse_csr", "torch.sparse_bsr")
BY_COLUMNS = ("torch.sparse_csc", "torch.sparse_bsc")
BLOCKED = ("torch.sparse_bsr", "torch.sparse_bsc")
MAX_ENTRIES = 1 << 27  # their places are held in memory, 24 bytes and more for each
MAX_SLOTS = 1 << 62


@dataclass(frozen=True, slots=True)
class Form:
    """A sparse tensor as slots: `batch` dimensions, then those of `grid`; a slot is a `block` of elements,
    each of the `dense` dimensions.

    The shape of the tensor is `batch + grid * block + dense`. Of every batch there are `entries`.
    """

    batch: Shape
    grid: Shape
    block: Shape
    dense: Shape
    entries: int

    @property
    def slots(self) -> Shape:
        """Batch and grid together."""
        return self.batch + self.grid

    @property
    def count(self) -> int:
        """Entries of all batches."""
        return prod(self.batch) * self.entries


class UnfitFormError(Exception):
    """A description that is none of a sparse tensor; the message says why."""


def form_of(detail: Sparse, shape: Shape) -> Form:
    """The form of a sparse tensor of that shape. UnfitFormError where its parts do not belong together."""
    parts = (*detail.indices, detail.values)
    if any(isinstance(part, Unreadable) for part in parts):
        raise UnfitFormError("its indices or values cannot be read")
    dtype = detail.values.spec.dtype
    if dtype.code not in STORED or dtype.kind == "packed" or dtype.code == "F8_E8M0":
        raise UnfitFormError(f"its values are {dtype}")
    if not all(_is_index(part) for part in detail.indices):
        raise UnfitFormError("its indices are no whole numbers of their own")
    form = _coo(detail, shape) if detail.layout == COO else _compressed(detail, shape)
    if prod(form.slots) > MAX_SLOTS:
        raise UnfitFormError("its shape is larger than any tensor")
    if form.count > MAX_ENTRIES:
        raise UnfitFormError(f"it has {form.count} entries; more than {MAX_ENTRIES} are not held")
    return form


def _is_index(part: LazyTensor) -> bool:
    """Integers, each with bytes of its own: an expanded view could claim any number of them."""
    expanded = isinstance(part, Leaf) and any(
        stride == 0 and size > 1 for stride, size in zip(part.strides, part.extent, strict=True)
    )
    return part.spec.dtype.code in ("I64", "I32") and not expanded


def _coo(detail: Sparse, shape: Shape) -> Form:
    indices, values = detail.indices[0].spec.shape, detail.values.spec.shape
    if len(detail.indices) != 1 or len(indices) != 2 or indices[0] > len(shape) or not values:
        raise UnfitFormError("its indices do not fit its shape")
    sparse, count = indices
    if values != (count, *shape[sparse:]):
        raise UnfitFormError("its values do not fit its indices")
    return Form((), shape[:sparse], (1,) * sparse, shape[sparse:], count)


def _compressed(detail: Sparse, shape: Shape) -> Form:
    """CSR, CSC, BSR, BSC: pointers, plain indices, values; each with the batch dimensions in front."""
    if detail.layout not in (*BY_ROWS, *BY_COLUMNS) or len(detail.indices) != 2:
        raise UnfitFormError(f"its layout is {detail.layout[:40]}")
    pointers, plain = (part.spec.shape for part in detail.indices)
    values = detail.values.spec.shape
    lead = len(pointers) - 1
    block = values[lead + 1 : lead + 3] if detail.layout in BLOCKED else (1, 1)
    matrix, batch = shape[lead : lead + 2], shape[:lead]
    if lead < 0 or len(matrix) != 2 or len(block) != 2 or 0 in block:
        raise UnfitFormError("its values do not fit its shape")
    if any(size % step for size, step in zip(matrix, block, strict=True)):
        raise UnfitFormError("its blocks do not fit its shape")
    rows, columns = (size // step for size, step in zip(matrix, block, strict=True))
    lines = rows if detail.layout in BY_ROWS else columns
    dense = shape[lead + 2 :]
    stored = block if detail.layout in BLOCKED else ()
    count = plain[-1] if plain else 0
    if pointers != (*batch, lines + 1) or plain != (*batch, count):
        raise UnfitFormError("its indices do not fit its shape")
    if values != (*batch, count, *stored, *dense):
        raise UnfitFormError("its values do not fit its indices")
    return Form(batch, (rows, columns), block, dense, count)
