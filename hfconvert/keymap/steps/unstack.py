"""`unstack: {from, into, dim}`: one tensor into numbered ones along a dimension, which is gone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.gather import MOST, number_capture
from hfconvert.keymap.made import Making, UnfitError, remade
from hfconvert.keymap.patterns import Pattern, Template
from hfconvert.keymap.rules import first_matches, matched_nothing
from hfconvert.keymap.shapes import size_along
from hfconvert.recipe.steps import StackOptions
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.simplify import select


def unstack(options: StackOptions, where: Where) -> StepFunction:
    """Give every index along the dimension a tensor of its own, by the one capture that only `into` has.

    UserError (exit 2) where nothing matches, or the dimension is missing or empty.
    """
    pattern = Pattern.parse(options.from_, where("from"))
    capture = number_capture(options.into, options.from_, where())
    dim = options.dim

    @cache
    def template(index: int) -> Template:
        text = options.into.replace(f"{{{capture}}}", str(index))
        return Template.parse(text, pattern, where("into"))

    template(0)  # what is wrong with it is said before any file is opened

    def count_of(tensor: LazyTensor) -> int:
        """As many as there are names for: what is wrong with the tensor is said by `make`."""
        sizes = tensor.extent[dim : dim + 1]
        return min(sizes[0], MOST) if sizes else 0

    def make(tensors: Sequence[LazyTensor], _making: Making) -> list[LazyTensor]:
        (whole,) = tensors
        count = size_along(whole, dim)
        if not 0 < count <= MOST:
            raise UnfitError(
                f"{whole.spec} has {count} indices along dimension {dim}",
                why="the dimension is another" if count else "the tensor is empty",
                do="mend `dim`",
            )
        return [select(whole, dim, index) for index in range(count)]

    def step(checkpoint: Checkpoint) -> Applied:
        makings = [
            Making(
                (name,),
                tuple(
                    template(index).expand(match)
                    for index in range(count_of(checkpoint[name].tensor))
                ),
            )
            for name, _, match in first_matches([pattern], checkpoint)
        ]
        if not makings:
            raise matched_nothing([pattern.text], where())
        return Applied(remade(checkpoint, makings, make, f"unstack dim {dim}", where()))

    return step
