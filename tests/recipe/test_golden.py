"""One recipe with one of everything that can be wrong, and what is said about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hfconvert.errors import UserError
from hfconvert.recipe import parse

HERE = Path(__file__).parent
EXPECTED = HERE / "many_problems.txt"


def said() -> str:
    text = (HERE / "many_problems.yaml").read_text(encoding="utf-8")
    with pytest.raises(UserError) as caught:
        parse(text, "recipe.yaml")
    return f"{caught.value}\n"


def test_all_the_problems_come_at_once() -> None:
    """When the words change on purpose: `python tests/recipe/test_golden.py` writes them anew."""
    assert said() == EXPECTED.read_text(encoding="utf-8")


if __name__ == "__main__":
    EXPECTED.write_text(said(), encoding="utf-8")
