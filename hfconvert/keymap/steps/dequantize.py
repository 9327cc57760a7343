"""`dequantize: [patterns]`: tensors that torch quantised, as the fp32 numbers that they stand for."""

from __future__ import annotations

from collections.abc import Sequence

from hfconvert.dtypes.dequantized import Dequantized, unfit
from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.plained import plained
from hfconvert.keymap.rules import parse_rules
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.unreadable import Quantized, Unreadable


class _Dequantize:
    step = "dequantize"
    kind = "quantised by torch"

    def is_kind(self, tensor: Unreadable) -> bool:
        return isinstance(tensor.detail, Quantized)

    def unfit(self, tensor: Unreadable) -> str:
        return unfit(tensor)

    def make(self, tensor: Unreadable, name: str) -> LazyTensor:
        return Dequantized(tensor, tensor.detail, name)


def dequantize(patterns: Sequence[str], where: Where) -> StepFunction:
    """Make fp32 of every quantised tensor that the patterns cover: equal to torch's `dequantize()`.

    UserError: exit 2 where they cover none, exit 3 where one is of a form that is not known.
    """
    rules = parse_rules(patterns, where)

    def step(checkpoint: Checkpoint) -> Applied:
        return plained(checkpoint, rules, _Dequantize(), where())

    return step
