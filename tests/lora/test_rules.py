"""PEFT's rules of matching, held against PEFT itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.lora.rules import is_target, pattern_value
from hfconvert.lora.settings import Settings

PARTS = st.sampled_from(["model", "layers", "0", "1", "12", "self_attn", "q_proj", "proj", "norm"])
NAMES = st.lists(PARTS, min_size=1, max_size=6).map(".".join)
TARGETS = st.one_of(
    st.lists(NAMES, min_size=1, max_size=3),
    st.sampled_from([r".*\.q_proj", r"model\..*proj", r".*layers\.1\..*", "q_proj"]),
)


@given(
    name=NAMES,
    targets=TARGETS,
    layers=st.one_of(st.none(), st.integers(0, 2), st.lists(st.integers(0, 12), max_size=2)),
    pattern=st.sampled_from([None, "layers", ["layers"], []]),
    excluded=st.one_of(st.none(), st.lists(NAMES, max_size=1), st.just(r".*norm")),
    saved=st.one_of(st.none(), st.lists(PARTS, min_size=1, max_size=1)),
)
def test_targets_are_those_of_peft(
    name: str, targets: Any, layers: Any, pattern: Any, excluded: Any, saved: Any
) -> None:
    from peft import LoraConfig
    from peft.tuners.tuners_utils import _ExcludedModule, check_target_module_exists

    values = {
        "target_modules": targets,
        "layers_to_transform": None if isinstance(targets, str) else layers,
        "layers_pattern": None if isinstance(targets, str) or layers is None else pattern,
        "exclude_modules": excluded,
        "modules_to_save": saved,
    }
    config = LoraConfig(**values)
    theirs = check_target_module_exists(config, name)
    wanted = bool(theirs) and not isinstance(theirs, _ExcludedModule)
    assert is_target(Settings({"peft_type": "LORA", **values}, "test"), name) == wanted


@given(
    name=NAMES,
    patterns=st.dictionaries(
        st.one_of(NAMES, st.sampled_from([r"layers\.1\..*proj", ".*norm", "^model.layers"])),
        st.integers(1, 99),
        max_size=4,
    ),
)
def test_patterns_are_those_of_peft(name: str, patterns: dict[str, int]) -> None:
    from peft.utils.other import get_pattern_key

    wanted = patterns.get(get_pattern_key(list(patterns), name), -1)
    assert pattern_value(patterns, name, -1) == wanted


@pytest.mark.parametrize("targets", ["all-linear", "ALL-LINEAR"])
def test_all_linear_takes_every_module_in(targets: str) -> None:
    assert is_target(Settings({"target_modules": targets}, "test"), "model.layers.0.q_proj")
