from __future__ import annotations

import pytest

from hfconvert.errors import Exit
from hfconvert.recipe.faults import MOST_PROBLEMS, Fault, in_order, name_hint, nearest, shown
from hfconvert.recipe.positions import file_mark


def fault(line: int, what: str = "wrong") -> Fault:
    return Fault(file_mark("r.yaml", line, 1), what, "why", "do")


def test_a_fault_becomes_a_problem_of_the_recipe() -> None:
    problem = fault(3).problem()
    assert problem.exit == Exit.RECIPE
    assert (problem.subject, problem.what, problem.why, problem.do) == (
        "r.yaml:3:1",
        "wrong",
        "why",
        "do",
    )


def test_problems_come_in_reading_order_each_once() -> None:
    problems = in_order([fault(10), fault(9), fault(10), fault(10, "other")])
    assert [(problem.subject, problem.what) for problem in problems] == [
        ("r.yaml:9:1", "wrong"),
        ("r.yaml:10:1", "wrong"),
        ("r.yaml:10:1", "other"),
    ]


def test_a_flood_of_problems_is_counted() -> None:
    problems = in_order(fault(line) for line in range(1, 251))
    assert len(problems) == MOST_PROBLEMS + 1
    assert problems[-1].what == "150 more problems after this"
    assert problems[-1].subject == "r.yaml:100:1"


@pytest.mark.parametrize(
    ("name", "near"),
    [("revison", "revision"), ("PATH", "path"), ("sub_folder", "subfolder"), ("zzz", None)],
)
def test_nearest(name: str, near: str | None) -> None:
    assert nearest(name, ["revision", "path", "subfolder"]) == near


def test_a_hint_lists_what_is_valid() -> None:
    assert name_hint("pth", ["path", "repo"]) == (
        "did you mean `path`?",
        "write `path`; valid here: path, repo",
    )
    assert name_hint("zzz", ["path", "repo"]) == ("", "use one of: path, repo")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "`a`"),
        (True, "`true`"),
        (5, "`5`"),
        ("a\nb\x1b[31m", "`a\\nb\\x1b[31m`"),
        ("\ud800", "`\\ud800`"),
        ("x" * 100, f"`{'x' * 60}...`"),
        (None, "null"),
        ({}, "a mapping"),
        (("a", "b"), "a list of 2"),
        (object(), "an object"),
    ],
)
def test_values_are_shown_short_and_on_one_line(value: object, text: str) -> None:
    assert shown(value) == text
