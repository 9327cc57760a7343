from __future__ import annotations

import errno
from pathlib import Path

import pytest

from hfconvert.errors import (
    Exit,
    Problem,
    UserError,
    exhausted_problem,
    foreseen,
    overlong_problem,
    raise_any,
    recipe_problem,
    resource_problem,
    source_problem,
    unreadable_problem,
    values_problem,
)
from hfconvert.findings import Finding, info, warning

WHAT = {"why": "it was cut off", "do": "fetch it again", "subject": "model.bin"}
VALUES = values_problem("it overflows", **WHAT, check="dtypes")
RECIPE = recipe_problem("it is unknown", **WHAT)
SOURCE = source_problem("it is truncated", **WHAT)
RESOURCES = resource_problem("it is full", **WHAT)


def test_exit_codes_are_those_of_the_contract() -> None:
    assert {code.name: int(code) for code in Exit} == {
        "OK": 0,
        "VALUES": 1,
        "RECIPE": 2,
        "SOURCE": 3,
        "HUB": 4,
        "RESOURCES": 5,
        "BULK": 6,
        "BUG": 70,
        "INTERRUPTED": 130,
    }


def test_each_kind_of_problem_has_its_code() -> None:
    kinds = {VALUES: 1, RECIPE: 2, SOURCE: 3, RESOURCES: 5}
    assert all(problem.exit == code for problem, code in kinds.items())


def test_a_problem_is_said_in_three_beats() -> None:
    assert str(SOURCE) == (
        "model.bin: it is truncated\n  why: it was cut off\n  do:  fetch it again"
    )


def test_beats_that_are_empty_are_left_out() -> None:
    bare = Problem(exit=Exit.SOURCE, check="source", subject="", what="nothing", why="", do="")
    assert str(bare) == "nothing"
    assert bare.finding().message == "nothing"


def test_a_problem_as_a_finding() -> None:
    assert SOURCE.finding().as_json() == {
        "level": "error",
        "check": "source",
        "subject": "model.bin",
        "message": "it is truncated (it was cut off)",
        "hint": "fetch it again",
    }


@pytest.mark.parametrize(
    ("problems", "code"),
    [
        ([VALUES], 1),
        ([VALUES, RECIPE], 2),
        ([SOURCE, RECIPE, VALUES], 3),
        ([RECIPE, RESOURCES, SOURCE], 5),
    ],
)
def test_where_several_apply_the_highest_code_counts(problems: list[Problem], code: int) -> None:
    error = UserError(*problems)
    assert error.exit == code
    assert error.problems == tuple(problems)
    assert all(str(problem) in str(error) for problem in problems)


def test_all_problems_are_raised_at_once_and_none_is_no_error() -> None:
    raise_any([])
    with pytest.raises(UserError) as caught:
        raise_any(problem for problem in (SOURCE, RECIPE))
    assert caught.value.problems == (SOURCE, RECIPE)


def test_findings_have_levels() -> None:
    assert warning("source", "x", "m", "h") == Finding(
        level="warning", check="source", subject="x", message="m", hint="h"
    )
    assert info("source", "x", "m").level == "info"
    assert info("source", "x", "m").as_json()["hint"] == ""


@pytest.mark.parametrize(
    ("error", "lacking"),
    [
        (MemoryError(), "memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory"),
        (RuntimeError("can't start new thread"), "threads"),
        (OSError(errno.EMFILE, "Too many open files"), "open files"),
        (OSError(errno.ENFILE, "Too many open files in system"), "open files"),
        (OSError(errno.ENOSPC, "No space left on device"), "room on the disk"),
    ],
)
def test_what_the_system_lacks_is_no_bug(error: Exception, lacking: str) -> None:
    problem = exhausted_problem(error)
    assert problem is not None
    assert problem.exit == Exit.RESOURCES
    assert problem.what.startswith(f"the system gives no more {lacking}: ")
    assert foreseen(error).problems == (problem,)
    if isinstance(error, OSError):
        assert unreadable_problem("model.bin", error) == problem


def test_a_name_that_no_file_can_have_is_no_bug(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long") as raised:
        (tmp_path / ("x" * 5000)).read_bytes()
    [problem] = foreseen(raised.value).problems
    assert problem == overlong_problem(raised.value)
    assert problem.exit == Exit.RECIPE
    assert problem.what == "a name is too long for this system"
    assert len(problem.subject) < 100


@pytest.mark.parametrize("error", [RuntimeError("odd"), OSError(errno.EIO, "odd"), KeyError("odd")])
def test_other_errors_are_bugs(error: Exception) -> None:
    assert exhausted_problem(error) is None
    with pytest.raises(type(error)) as raised:
        foreseen(error)
    assert raised.value is error


def test_errors_of_users_pass_through() -> None:
    error = UserError(SOURCE)
    assert foreseen(error) is error


def test_what_may_not_be_read_is_named() -> None:
    said = unreadable_problem("folder", PermissionError(errno.EACCES, "Permission denied"))
    assert (said.exit, said.subject, said.what) == (
        Exit.SOURCE,
        "folder",
        "this cannot be read: Permission denied",
    )
    named = PermissionError(errno.EACCES, "Permission denied", "folder/config.json")
    assert unreadable_problem("folder", named).subject == "folder/config.json"
