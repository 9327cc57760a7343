"""What the tests of recipes share: short ways to a recipe and to everything that is wrong with one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hfconvert.errors import Exit, Problem, UserError
from hfconvert.recipe import Recipe, parse

Read = Callable[..., Recipe]
Refuse = Callable[..., list[Problem]]

HEAD = "version: 1\nsource: {path: ./model}\n"


@pytest.fixture
def read() -> Read:
    """`read("dtype: bfloat16", "output.disk=bounded")`: a recipe with these lines from line 3 on."""

    def recipe(lines: str = "", *overrides: str, head: str = HEAD) -> Recipe:
        return parse(head + lines, "recipe.yaml", overrides)

    return recipe


@pytest.fixture
def refuse() -> Refuse:
    """The same, for recipes that are refused: all the problems, in order."""

    def problems(lines: str = "", *overrides: str, head: str = HEAD) -> list[Problem]:
        with pytest.raises(UserError) as caught:
            parse(head + lines, "recipe.yaml", overrides)
        assert caught.value.exit == Exit.RECIPE
        assert all(problem.check == "recipe" and problem.do for problem in caught.value.problems)
        return list(caught.value.problems)

    return problems
