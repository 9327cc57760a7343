"""From the terms of a tensor to the node that computes the merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hfconvert.lora.merged import Merged
from hfconvert.lora.scales import scale_of
from hfconvert.lora.terms import Term
from hfconvert.lora.updates import Added, LowRank, Rows, Update
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.reorder import Permute
from hfconvert.tensors.tally import Tally


@dataclass(frozen=True, slots=True)
class Making:
    """How merges are computed: `native` rounds as PEFT does at the stored dtypes; losses go to `tally`."""

    native: bool
    tally: Tally


def merged(
    name: str, base: LazyTensor, terms: Sequence[Term], dtype: DType, making: Making
) -> Merged:
    """The tensor with all its updates, in their order."""
    updates = tuple(update_of(term) for term in terms)
    return Merged(base, updates, dtype, name, making.tally, making.native)


def update_of(term: Term) -> Update:
    """The update that a term stands for."""
    if term.kind == "low-rank":
        return _low_rank(term)
    if term.kind == "bias":
        return Added(term.tensors["bias"], scale_of(term))
    if term.kind == "rows":
        return Rows(term.tensors["rows"], term.indices)
    raise ValueError(term.kind)


def _low_rank(term: Term) -> LowRank:
    a, b = term.tensors["A"], term.tensors["B"]
    if term.transposed:
        a, b = Permute(b, (1, 0)), Permute(a, (1, 0))
    return LowRank(b, a, scale_of(term), at_stored_dtype=term.parameter)
