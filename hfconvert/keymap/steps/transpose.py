"""`transpose: [patterns]`: the two dimensions of matrices swapped."""

from __future__ import annotations

from collections.abc import Sequence

from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.made import UnfitError
from hfconvert.keymap.rearranged import rearranged
from hfconvert.keymap.rules import parse_rules
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.reorder import Permute


def transpose(patterns: Sequence[str], where: Where) -> StepFunction:
    """Swap the last two dimensions of what the patterns cover: of matrices, or of stacks of them.

    UserError (exit 2) where nothing matches, or a tensor has fewer than two dimensions.
    """
    rules = parse_rules(patterns, where)

    def make(tensor: LazyTensor) -> LazyTensor:
        count = len(tensor.extent)
        if count < 2:
            raise UnfitError(
                f"{tensor.spec} is no matrix",
                why="the pattern covers biases or norms beside the weights",
                do="narrow it to the matrices, such as `*.weight`",
            )
        return Permute(tensor, (*range(count - 2), count - 1, count - 2))

    def step(checkpoint: Checkpoint) -> Applied:
        return rearranged(checkpoint, rules, [make] * len(rules), "transpose", where())

    return step
