"""`add_prefix: text`: every name begins with the text."""

from __future__ import annotations

from hfconvert.errors import UserError, recipe_problem
from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.move import moved
from hfconvert.keymap.rules import matched_nothing
from hfconvert.tensors.checkpoint import Checkpoint


def add_prefix(prefix: str, where: Where) -> StepFunction:
    """Put the text, taken as it is, before every name. UserError (exit 2) where it is empty."""
    if not prefix:
        raise UserError(
            recipe_problem(
                "the prefix is empty",
                why="the step would do nothing",
                do="write the prefix with its dot, such as `model.`, or remove the step",
                subject=where(),
                check="names",
            )
        )

    def step(checkpoint: Checkpoint) -> Applied:
        if not checkpoint:
            raise matched_nothing(["*"], where())
        names = {name: prefix + name for name in checkpoint}
        return Applied(moved(checkpoint, names, f"add_prefix {prefix}", where()))

    return step
