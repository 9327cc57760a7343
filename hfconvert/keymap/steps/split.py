"""`split: {from, into, dim}`: one tensor into equal parts along a dimension."""

from __future__ import annotations

from collections.abc import Sequence

from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.gather import OneToMany
from hfconvert.keymap.made import Making, UnfitError, remade
from hfconvert.keymap.shapes import size_along
from hfconvert.recipe.steps import SplitOptions
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.simplify import window


def split(options: SplitOptions, where: Where) -> StepFunction:
    """Divide what `from` covers into as many equal parts as `into` names.

    UserError (exit 2) where nothing matches, the dimension is missing, or it does not divide evenly.
    """
    rule = OneToMany.parse(options.from_, options.into, where)
    count, dim = len(options.into), options.dim

    def make(tensors: Sequence[LazyTensor], _making: Making) -> list[LazyTensor]:
        (whole,) = tensors
        size, rest = divmod(size_along(whole, dim), count)
        if rest:
            raise UnfitError(
                f"{whole.spec} does not divide into {count} equal parts along dimension {dim}",
                why="the dimension is another, or parts of different sizes are meant",
                do="mend `dim` or `into`; query, key and value of different sizes are a `qkv` step",
            )
        return [window(whole, dim, i * size, (i + 1) * size) for i in range(count)]

    def step(checkpoint: Checkpoint) -> Applied:
        makings = rule.makings(checkpoint, where())
        return Applied(remade(checkpoint, makings, make, f"split dim {dim}", where()))

    return step
