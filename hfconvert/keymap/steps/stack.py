"""`stack: {from, into, dim}`: tensors that a number tells apart, into one with a new dimension."""

from __future__ import annotations

from collections.abc import Sequence

from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.gather import Numbered
from hfconvert.keymap.made import Making, remade
from hfconvert.keymap.shapes import check_new_dim, check_same
from hfconvert.recipe.steps import StackOptions
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.simplify import stacked


def stack(options: StackOptions, where: Where) -> StepFunction:
    """Stack what `from` covers along a new dimension, by the one capture that `into` does not repeat.

    UserError (exit 2) where a number from 0 on is missing, or dtypes or shapes differ.
    """
    rule = Numbered.parse(options.from_, options.into, where)
    dim = options.dim

    def make(tensors: Sequence[LazyTensor], _making: Making) -> list[LazyTensor]:
        check_same(tensors)
        check_new_dim(tensors[0], dim)
        return [stacked(tensors, dim)]

    def step(checkpoint: Checkpoint) -> Applied:
        makings = rule.makings(checkpoint, where())
        return Applied(remade(checkpoint, makings, make, f"stack dim {dim}", where()))

    return step
