"""`concat: {from, into, dim}`: several tensors into one along a dimension."""

from __future__ import annotations

from collections.abc import Sequence

from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.gather import ManyToOne
from hfconvert.keymap.made import Making, remade
from hfconvert.keymap.shapes import check_alike
from hfconvert.recipe.steps import ConcatOptions
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.simplify import side_by_side


def concat(options: ConcatOptions, where: Where) -> StepFunction:
    """Put the tensors that the patterns of `from` cover side by side, in their order, under one name.

    Which belong together is what `into` makes of them. UserError (exit 2) where one of them is missing, or
    dtypes or other sizes differ.
    """
    rule = ManyToOne.parse(options.from_, options.into, where)
    dim = options.dim

    def make(tensors: Sequence[LazyTensor], _making: Making) -> list[LazyTensor]:
        check_alike(tensors, dim)
        return [side_by_side(tensors, dim)]

    def step(checkpoint: Checkpoint) -> Applied:
        makings = rule.makings(checkpoint, where())
        return Applied(remade(checkpoint, makings, make, f"concat dim {dim}", where()))

    return step
