from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.steps.add_prefix import add_prefix
from hfconvert.keymap.steps.strip_prefix import strip_prefix
from hfconvert.tensors.checkpoint import Checkpoint

Make = Callable[..., Checkpoint]
Where = Callable[..., str]


def test_what_came_off_is_recorded(checkpoint: Make, where: Where) -> None:
    step = strip_prefix(["module.", "_orig_mod."], where)
    result = step(checkpoint(["module.a._orig_mod.w", "module.b"]))
    after = result.checkpoint
    assert list(after) == ["a.w", "b"]
    assert after["a.w"].steps == ("strip_prefix module., _orig_mod.",)
    assert after["b"].steps == ("strip_prefix module.",)
    assert [(one.level, one.subject, one.message) for one in result.findings] == [
        ("info", "0", "`module.` was taken off 2 names"),
        ("info", "1", "`_orig_mod.` was taken off 1 names"),
    ]


def test_a_prefix_that_only_some_names_carry_is_an_error_with_both_counts(
    checkpoint: Make, where: Where
) -> None:
    names = ["_orig_mod.a", "_orig_mod.b", "_orig_mod.c", "x", "y"]
    with pytest.raises(UserError) as caught:
        strip_prefix(["_orig_mod."], where)(checkpoint(names))
    (problem,) = caught.value.problems
    assert problem.exit == Exit.RECIPE
    assert problem.subject == "0"
    assert "`_orig_mod.` is at the front of 3 names, and 2 do not have it" in problem.what


def test_mixed_names_and_collisions_come_at_once(checkpoint: Make, where: Where) -> None:
    names = ["_orig_mod.a", "_orig_mod.b", "_orig_mod.c", "a", "y", "z"]
    with pytest.raises(UserError) as caught:
        strip_prefix(["_orig_mod."], where)(checkpoint(names))
    mixed, collision = caught.value.problems
    assert "3 names, and 3 do not have it" in mixed.what
    assert "`a` from `_orig_mod.a`, `a`" in collision.what


def test_a_wrapper_may_stand_inside_some_names_only(checkpoint: Make, where: Where) -> None:
    step = strip_prefix(["_checkpoint_wrapped_module."], where)
    after = step(checkpoint(["embed.w", "layers.0._checkpoint_wrapped_module.w"])).checkpoint
    assert list(after) == ["embed.w", "layers.0.w"]
    assert after["embed.w"].steps == ()


def test_any_other_prefix_inside_a_name_stays(checkpoint: Make, where: Where) -> None:
    with pytest.raises(UserError, match=r"matched 0 keys: `net\.`"):
        strip_prefix(["net."], where)(checkpoint(["a.net.w", "b.net.w"]))


def test_a_prefix_that_is_absent(checkpoint: Make, where: Where) -> None:
    with pytest.raises(UserError, match=r"matched 0 keys: `_orig_mod\.`") as caught:
        strip_prefix(["_orig_mod."], where)(checkpoint(["a", "b"]))
    assert caught.value.exit == Exit.RECIPE
    found = strip_prefix(["module.", "a."], where)(checkpoint(["a.x", "a.y"])).findings
    assert [(one.level, one.subject) for one in found] == [("warning", "0"), ("info", "1")]


def test_a_name_that_is_nothing_but_prefix(checkpoint: Make, where: Where) -> None:
    with pytest.raises(UserError, match="a name that no file can hold: ``"):
        strip_prefix(["module."], where)(checkpoint(["module.", "module.a"]))


def test_an_empty_prefix_is_refused_before_any_checkpoint(where: Where) -> None:
    with pytest.raises(UserError, match="1: the prefix is empty"):
        strip_prefix(["module.", ""], where)


NAMES = st.sets(st.text("ab.", min_size=1, max_size=6), min_size=1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=NAMES, prefix=st.sampled_from(["model.", "a.", "ab", "module.", "_orig_mod."]))
def test_stripping_what_was_added_is_the_identity(
    checkpoint: Make, where: Where, names: set[str], prefix: str
) -> None:
    before = checkpoint(sorted(names))
    longer = add_prefix(prefix, where)(before).checkpoint
    after = strip_prefix([prefix], where)(longer).checkpoint
    assert list(after) == list(before)
    assert all(after[name].sources == (name,) for name in before)
