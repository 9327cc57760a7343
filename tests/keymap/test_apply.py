from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.applied import Applied, StepFunction
from hfconvert.keymap.apply import MAX_NAME, apply
from hfconvert.keymap.coverage import check_coverage
from hfconvert.keymap.steps import STEPS
from hfconvert.recipe import steps as forms
from hfconvert.recipe.steps import StepModel
from hfconvert.tensors.checkpoint import Checkpoint

Make = Callable[..., Checkpoint]
Where = Callable[..., str]


def test_every_step_is_one_that_recipes_have() -> None:
    assert set(STEPS) <= set(forms.STEPS)


def test_steps_follow_each_other(checkpoint: Make, where: Where) -> None:
    steps: list[StepModel] = [
        forms.StripPrefix(strip_prefix=("module.",)),
        forms.Drop(drop=("*.bias", "z")),
        forms.Rename(rename={"h.{i}.w": "layers.{i}.weight"}),
        forms.AddPrefix(add_prefix="model."),
    ]
    result = apply(checkpoint(["module.h.0.w", "module.h.0.bias", "module.h.1.w"]), steps, where)
    after = result.checkpoint
    assert list(after) == ["model.layers.0.weight", "model.layers.1.weight"]
    assert after["model.layers.1.weight"].sources == ("module.h.1.w",)
    assert after["model.layers.1.weight"].steps == (
        "strip_prefix module.",
        "rename",
        "add_prefix model.",
    )
    assert [(one.name, one.rule) for one in after.dropped] == [("module.h.0.bias", "drop: *.bias")]
    assert [(one.level, one.subject, one.message) for one in result.findings] == [
        ("info", "key_map.0.strip_prefix.0", "`module.` was taken off 3 names"),
        ("warning", "key_map.1.drop.1", "`z` matched 0 keys; other rules of the step did"),
        ("info", "key_map", "3 tensors: 2 mapped, 1 dropped"),
    ]


def test_no_steps_change_nothing(checkpoint: Make, where: Where) -> None:
    before = checkpoint(["a"])
    result = apply(before, [], where)
    assert result.checkpoint is before
    assert result.findings == ()


def test_a_checkpoint_that_took_steps_before_is_accounted_for_by_its_sources(
    checkpoint: Make, where: Where
) -> None:
    first = apply(checkpoint(["a", "b"]), [forms.Rename(rename={"a": "x"})], where).checkpoint
    second = apply(first, [forms.Drop(drop=("b",))], where)
    assert [finding.message for finding in second.findings] == ["2 tensors: 1 mapped, 1 dropped"]


def test_ties_are_handed_on(checkpoint: Make, where: Where) -> None:
    steps = [forms.Tie(tie={"head": "embed"}), forms.Rename(rename={"embed": "e"})]
    result = apply(checkpoint(["embed", "head"]), steps, where)
    assert [(tie.kept, tie.dropped, tie.subject) for tie in result.ties] == [
        ("embed", "head", "key_map.0.tie.head")
    ]


def test_the_problems_of_all_steps_come_at_once(checkpoint: Make, where: Where) -> None:
    steps = [
        forms.Rename(rename={"a": "b"}),
        forms.Drop(drop=("nothing.*",)),
        forms.Rename(rename={"c.{": "d"}),
        forms.Rename(rename={"b": "c"}),
    ]
    with pytest.raises(UserError) as caught:
        apply(checkpoint(["a", "c"]), steps, where)
    collision, pattern = caught.value.problems[2], caught.value.problems[1]
    assert [problem.subject for problem in caught.value.problems] == [
        "key_map.1.drop",
        "key_map.2.rename.c.{",
        "key_map.3.rename",
    ]
    assert "`c` from `b`, `c`" in collision.what
    assert collision.why.endswith("or it follows from the step at key_map.1")
    assert "follows" not in pattern.why
    assert caught.value.exit == Exit.RECIPE


def test_a_step_that_loses_a_tensor_is_found_out(
    checkpoint: Make, where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lossy(_: object, __: Where) -> StepFunction:
        return lambda before: Applied(before.with_entries({"a": before["a"]}))

    monkeypatch.setattr("hfconvert.keymap.apply.STEPS", {"drop": lossy})
    with pytest.raises(UserError, match="1 tensors are neither mapped nor dropped: `b`"):
        apply(checkpoint(["a", "b"]), [forms.Drop(drop=("b",))], where)


def test_steps_that_are_not_built_say_so(
    checkpoint: Make, where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hfconvert.keymap.apply.STEPS", {})
    step = forms.Densify(densify=("*",))
    with pytest.raises(UserError, match=r"key_map\.0\.densify: the step `densify` is not built"):
        apply(checkpoint(["a"]), [step], where)


def test_names_of_the_source_that_no_file_can_hold(checkpoint: Make, where: Where) -> None:
    with pytest.raises(UserError, match="key_map: 1 tensors would have a name that no file"):
        apply(checkpoint(["a", "__metadata__"]), [], where)
    steps = [forms.Rename(rename={"__metadata__": "metadata"})]
    assert list(apply(checkpoint(["a", "__metadata__"]), steps, where).checkpoint) == [
        "a",
        "metadata",
    ]


def test_names_of_absurd_length_are_refused_before_they_are_matched(
    checkpoint: Make, where: Where
) -> None:
    with pytest.raises(UserError, match="1 names are longer than 4096 characters") as caught:
        apply(checkpoint(["a", "b" * (MAX_NAME + 1)]), [forms.Drop(drop=("a",))], where)
    assert caught.value.exit == Exit.SOURCE


RULES = st.sampled_from(
    [
        forms.Rename(rename={"a.*": "b.*"}),
        forms.Rename(rename={"{x}.{y}": "{y}.{x}", "b.*": "*"}),
        forms.Rename(rename={"*a": "*b", "*b": "*a"}),
        forms.StripPrefix(strip_prefix=("a.",)),
        forms.StripPrefix(strip_prefix=("module.", "b.")),
        forms.AddPrefix(add_prefix="module."),
        forms.Drop(drop=("a.*",)),
        forms.Drop(drop=("*b", "*.a")),
        forms.Tie(tie={"{x}.a": "{x}.b"}),
        forms.Untie(untie={"{x}.new": "{x}.b"}),
    ]
)
NAMES = st.sets(
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map(".".join), min_size=2
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(names=NAMES, steps=st.lists(RULES, max_size=5))
def test_no_tensor_is_ever_lost(
    checkpoint: Make, where: Where, names: set[str], steps: list[StepModel]
) -> None:
    before = checkpoint(sorted(names))
    try:
        after = apply(before, steps, where).checkpoint
    except UserError:
        return
    found = check_coverage(before, after)
    assert sorted((*found.mapped, *found.dropped)) == sorted(names)
    for entry in after.values():
        (source,) = entry.sources
        assert entry.tensor is before[source].tensor
