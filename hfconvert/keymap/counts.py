"""Numbers of a step, once every `${...}` in them has its value."""

from __future__ import annotations

from hfconvert.errors import UserError, recipe_problem


def filled_in(count: int | str, subject: str) -> int:
    """The number. UserError (exit 2) where it still waits for a value that the source does not have."""
    if isinstance(count, int):
        return count
    raise UserError(
        recipe_problem(
            f"the geometry is missing: {count} has no value",
            why="the source has no config.json or no recorded arguments, or they lack the name",
            do="write the number itself",
            subject=subject,
            check="names",
        )
    )
