from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.steps.rename import rename
from hfconvert.tensors.checkpoint import Checkpoint

Make = Callable[..., Checkpoint]
Where = Callable[..., str]


def test_the_first_pattern_wins_and_nothing_chains(checkpoint: Make, where: Where) -> None:
    step = rename({"a.{i}": "b.{i}", "a.*": "never.*", "b.{i}": "c.{i}"}, where)
    after = step(checkpoint(["a.0", "x", "b.0", "a.0.0"])).checkpoint
    assert list(after) == ["b.0", "x", "c.0", "never.0.0"]
    assert after["b.0"].sources == ("a.0",)
    assert after["b.0"].steps == ("rename",)
    assert after["x"].steps == ()


def test_names_can_be_exchanged(checkpoint: Make, where: Where) -> None:
    before = checkpoint(["a", "b"])
    after = rename({"a": "b", "b": "a"}, where)(before).checkpoint
    assert after["a"].tensor is before["b"].tensor
    assert after["b"].tensor is before["a"].tensor


def test_a_pattern_without_a_match_is_a_warning_beside_others(
    checkpoint: Make, where: Where
) -> None:
    (finding,) = rename({"a": "b", "z.*": "y.*"}, where)(checkpoint(["a"])).findings
    assert (finding.level, finding.check, finding.subject) == ("warning", "names", "z.*")
    assert "`z.*` matched 0 keys" in finding.message


def test_a_step_without_a_match_is_an_error(checkpoint: Make, where: Where) -> None:
    with pytest.raises(UserError, match=r"step: the step matched 0 keys: `z`, `y\.\*`") as caught:
        rename({"z": "x", "y.*": "*"}, where)(checkpoint(["a"]))
    assert caught.value.exit == Exit.RECIPE


def test_two_tensors_under_one_name_are_an_error_that_lists_both(
    checkpoint: Make, where: Where
) -> None:
    with pytest.raises(UserError) as caught:
        rename({"a.*": "*", "b.*": "*"}, where)(checkpoint(["a.w", "b.w", "c"]))
    assert "1 names would stand for several tensors each: `w` from `a.w`, `b.w`" in str(
        caught.value
    )
    assert caught.value.exit == Exit.RECIPE


def test_the_name_of_an_untouched_tensor_is_taken(checkpoint: Make, where: Where) -> None:
    with pytest.raises(UserError, match="`c` from `a`, `c`"):
        rename({"a": "c"}, where)(checkpoint(["a", "c"]))


def test_many_collisions_fold(checkpoint: Make, where: Where) -> None:
    names = [f"{side}.{i}.w" for side in "ab" for i in range(40)]
    with pytest.raises(UserError) as caught:
        rename({"{side}.{i}.w": "{i}.w"}, where)(checkpoint(names))
    said = str(caught.value)
    assert "40 names" in said
    assert "`{0..39}.w` from `a.{0..39}.w`, `b.{0..39}.w`" in said


@pytest.mark.parametrize("name", ["", "__metadata__", "a\0b", "a\nb", "a\x9bb", "a\ud800"])
def test_names_that_no_file_can_hold(checkpoint: Make, where: Where, name: str) -> None:
    with pytest.raises(UserError, match="1 tensors would have a name that no file can hold"):
        rename({"a": name}, where)(checkpoint(["a", "b"]))


def test_all_patterns_that_are_none_come_at_once(where: Where) -> None:
    with pytest.raises(UserError) as caught:
        rename({"a.{": "b", "c.{i}": "d.{j}", "e": "f"}, where)
    assert [problem.subject for problem in caught.value.problems] == ["a.{", "c.{i}"]


PARTS = st.sampled_from(["a", "b", "0", "1", "q"])
NAMES = st.sets(st.lists(PARTS, min_size=3, max_size=3).map(".".join), min_size=1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=NAMES, order=st.permutations(["x", "y", "z"]))
def test_renaming_back_and_forth_is_the_identity(
    checkpoint: Make, where: Where, names: set[str], order: list[str]
) -> None:
    left = "{x}.{y}.{z}"
    right = ".".join(["new", *(f"{{{capture}}}" for capture in order)])
    before = checkpoint(sorted(names))
    there = rename({left: right}, where)(before).checkpoint
    back = rename({right: left}, where)(there).checkpoint
    assert list(back) == list(before)
    assert all(back[name].tensor is before[name].tensor for name in before)
    assert all(back[name].sources == (name,) for name in before)
