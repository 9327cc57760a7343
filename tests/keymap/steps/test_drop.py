from __future__ import annotations

from collections.abc import Callable

import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.steps.drop import drop
from hfconvert.keymap.steps.rename import rename
from hfconvert.tensors.checkpoint import Checkpoint, Dropped, Entry

Make = Callable[..., Checkpoint]
Where = Callable[..., str]


def test_what_is_dropped_is_recorded_with_the_first_rule_that_matches(
    checkpoint: Make, where: Where
) -> None:
    before = checkpoint(["h.0.attn.bias", "h.0.w", "h.1.attn.bias"])
    after = drop(["h.1.*", "*.attn.bias"], where)(before).checkpoint
    assert list(after) == ["h.0.w"]
    assert after.dropped == (
        Dropped("h.0.attn.bias", "drop: *.attn.bias"),
        Dropped("h.1.attn.bias", "drop: h.1.*"),
    )


def test_sources_are_recorded_under_their_own_names(checkpoint: Make, where: Where) -> None:
    renamed = rename({"a": "x"}, where)(checkpoint(["a", "b"])).checkpoint
    two = Entry(renamed["x"].tensor, ("a", "b"))
    after = drop(["x"], where)(renamed.with_entries({"x": two, "y": renamed["b"]})).checkpoint
    assert [dropped.name for dropped in after.dropped] == ["a", "b"]


def test_a_rule_that_drops_everything_is_an_error(checkpoint: Make, where: Where) -> None:
    step = drop(["_orig_mod.*"], where)
    with pytest.raises(UserError, match="rule drops 100 % of tensors") as caught:
        step(checkpoint(["_orig_mod.a", "_orig_mod.b"]))
    assert "`_orig_mod.*` matches all 2" in str(caught.value)
    assert "strip_prefix" in str(caught.value)
    assert caught.value.exit == Exit.RECIPE


def test_rules_that_drop_everything_together_are_an_error(checkpoint: Make, where: Where) -> None:
    with pytest.raises(UserError, match="rule drops 100 % of tensors: `a`, `b` matches all 2"):
        drop(["a", "b"], where)(checkpoint(["a", "b"]))


def test_rules_without_a_match(checkpoint: Make, where: Where) -> None:
    (finding,) = drop(["a", "z"], where)(checkpoint(["a", "b"])).findings
    assert (finding.level, finding.subject) == ("warning", "1")
    with pytest.raises(UserError, match="matched 0 keys: `y`, `z`"):
        drop(["y", "z"], where)(checkpoint(["a", "b"]))


def test_a_rule_whose_names_an_earlier_one_took_is_a_warning(
    checkpoint: Make, where: Where
) -> None:
    (finding,) = drop(["a.*", "a.b"], where)(checkpoint(["a.b", "c"])).findings
    assert "`a.b` matched 0 keys" in finding.message
