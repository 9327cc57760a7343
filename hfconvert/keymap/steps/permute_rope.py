"""`permute_rope: {names, heads, to}`: the rows of rotary projections in the other order."""

from __future__ import annotations

from functools import partial

from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.counts import filled_in
from hfconvert.keymap.made import UnfitError
from hfconvert.keymap.rearranged import rearranged
from hfconvert.keymap.rules import parse_rules
from hfconvert.keymap.shapes import size_along
from hfconvert.recipe.steps import PermuteRopeOptions
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.reorder import Take
from hfconvert.tensors.rows import half_of_interleaved, inverse


def permute_rope(options: PermuteRopeOptions, where: Where) -> StepFunction:
    """Rows of every head from pairs to halves (`to: half`), or back; weights and biases alike.

    UserError (exit 2) where nothing matches, or the rows are no even number for each head.
    """
    rules = parse_rules(options.names, partial(where, "names"))
    heads = filled_in(options.heads, where("heads"))

    def make(tensor: LazyTensor) -> LazyTensor:
        rows = size_along(tensor, 0)
        if rows % (2 * heads) or not rows:
            raise UnfitError(
                f"{tensor.spec} does not have an even number of rows for each of {heads} heads",
                why="`heads` is that of another projection: keys have as many as key-value heads",
                do="give the heads that this projection holds; use one step for each number",
            )
        order = half_of_interleaved(rows, heads)
        return Take(tensor, 0, order if options.to == "half" else inverse(order))

    def step(checkpoint: Checkpoint) -> Applied:
        label = f"permute_rope {options.to}"
        return rearranged(checkpoint, rules, [make] * len(rules), label, where())

    return step
