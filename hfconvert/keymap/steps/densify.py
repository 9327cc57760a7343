"""`densify: [patterns]`: sparse tensors as dense ones."""

from __future__ import annotations

from collections.abc import Sequence

from hfconvert.dtypes.densified import Densified
from hfconvert.dtypes.sparse_entries import Entries
from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.plained import plained
from hfconvert.keymap.rules import parse_rules
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.recent import Recent
from hfconvert.tensors.sparse_elements import Lines, SparseElements
from hfconvert.tensors.sparse_form import UnfitFormError, form_of
from hfconvert.tensors.unreadable import Sparse, Unreadable


class _Densify:
    step = "densify"
    kind = "sparse"

    def __init__(self) -> None:
        self._entries: Recent[Entries] = Recent()
        self._lines: Recent[Lines] = Recent()

    def is_kind(self, tensor: Unreadable) -> bool:
        return isinstance(tensor.detail, Sparse)

    def unfit(self, tensor: Unreadable) -> str:
        try:
            form_of(tensor.detail, tensor.spec.shape)
        except UnfitFormError as error:
            return str(error)
        return ""

    def make(self, tensor: Unreadable, name: str) -> LazyTensor:
        detail, shape = tensor.detail, tensor.spec.shape
        form = form_of(detail, shape)
        second = SparseElements(detail, form, shape, name, self._lines)
        return Densified(tensor, detail, form, name, self._entries, second)


def densify(patterns: Sequence[str], where: Where) -> StepFunction:
    """Make a dense tensor of every sparse one that the patterns cover: equal to torch's `to_dense()`.

    UserError: exit 2 where they cover none, exit 3 where one is of a form that is not known.
    """
    rules = parse_rules(patterns, where)

    def step(checkpoint: Checkpoint) -> Applied:
        return plained(checkpoint, rules, _Densify(), where())

    return step
