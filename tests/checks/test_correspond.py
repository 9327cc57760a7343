from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hfconvert.checks.correspond import correspond, likely_prefix

NAMES = [f"layers.{layer}.{part}.weight" for layer in range(3) for part in ("q", "mlp.up")]
parts = st.text("abc01", min_size=1, max_size=3)
names = st.sets(st.lists(parts, min_size=1, max_size=4).map(".".join), min_size=1, max_size=8)


@given(names)
def test_equal_names_are_their_own_pairs(found: set[str]) -> None:
    result = correspond(found, sorted(found, reverse=True))
    assert result.pairs == {name: name for name in found}
    assert (result.missing, result.added) == ((), ())


@given(names, names)
def test_every_name_is_paired_missing_or_added(ours: set[str], theirs: set[str]) -> None:
    result = correspond(ours, theirs)
    assert {*result.pairs, *result.added} == theirs
    assert {*result.pairs.values(), *result.missing} == ours
    assert len(set(result.pairs.values())) == len(result.pairs)


@given(names, st.lists(parts, min_size=1, max_size=2).map(".".join))
def test_a_prefix_on_all_names_is_found_on_either_side(found: set[str], prefix: str) -> None:
    longer = {f"{prefix}.{name}" for name in found}
    assert correspond(longer, found).missing == ()
    assert correspond(found, longer).missing == ()


def test_a_prefix_is_said_with_its_count() -> None:
    result = correspond([f"model.{name}" for name in NAMES] + ["lm_head.weight"], NAMES)
    assert result.missing == ("lm_head.weight",)
    assert result.findings[0].message == (
        "6 names stand in the candidate without the prefix `model.`"
    )


def test_wrappers_and_old_names_of_weights() -> None:
    result = correspond(
        ["module.e.LayerNorm.gamma", "module.e._orig_mod.x", "conv.weight_g"],
        ["e.LayerNorm.weight", "e.x", "conv.parametrizations.weight.original0"],
    )
    assert result.pairs == {
        "e.LayerNorm.weight": "module.e.LayerNorm.gamma",
        "e.x": "module.e._orig_mod.x",
        "conv.parametrizations.weight.original0": "conv.weight_g",
    }


def test_names_that_would_become_one_stay_as_they_are() -> None:
    result = correspond(["module.x", "x"], ["x"])
    assert result.pairs == {"x": "x"}
    assert result.missing == ("module.x",)


def test_the_likely_prefix_and_what_it_mends() -> None:
    wanted = [f"model.{name}" for name in NAMES]
    assert likely_prefix([*NAMES[:-1], "odd"], wanted) == ("add", "model.", 5)
    assert likely_prefix(wanted, NAMES) == ("remove", "model.", 6)
    assert likely_prefix(NAMES, NAMES) is None
    assert likely_prefix(["a"], ["b"]) is None
