from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hfconvert.recipe import Recipe
from hfconvert.recipe.casts import cast_targets
from hfconvert.tensors.dtype import BY_TORCH


@pytest.mark.parametrize(
    ("lines", "default", "rules"),
    [
        ("", "keep", {}),
        ("dtype: keep", "keep", {}),
        ("dtype: bfloat16", "bfloat16", {}),
        ("dtype: float8_e4m3fn", "float8_e4m3fn", {}),
        ("dtype: ${config.torch_dtype}", "${config.torch_dtype}", {}),
        ("dtype: {default: float16}", "float16", {}),
        ('dtype: {rules: {"*norm*": float32}}', "keep", {"*norm*": "float32"}),
        (
            'dtype: {default: bfloat16, rules: {"*norm*": float32, "*": keep}}',
            "bfloat16",
            {"*norm*": "float32", "*": "keep"},
        ),
    ],
)
def test_both_forms_come_as_one(
    read: Callable[..., Recipe], lines: str, default: str, rules: dict[str, str]
) -> None:
    dtype = read(lines).dtype
    assert (dtype.default, dict(dtype.rules)) == (default, rules)
    assert dtype.keeps_all == (lines in {"", "dtype: keep"})


def test_targets_are_the_floating_types_that_safetensors_holds() -> None:
    assert cast_targets() == [
        "keep",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
    ]
    assert all(BY_TORCH[name].kind == "float" for name in cast_targets()[1:])


@pytest.mark.parametrize(
    ("lines", "column", "name", "near"),
    [
        ("dtype: bf16", 8, "bf16", "bfloat16"),
        ("dtype: BF16", 8, "BF16", "bfloat16"),
        ("dtype: torch.float16", 8, "torch.float16", "float16"),
        ("dtype: bflot16", 8, "bflot16", "bfloat16"),
        ("dtype: float8_e8m0fnu", 8, "float8_e8m0fnu", "float8_e5m2fnuz"),
        ("dtype: int8", 8, "int8", None),
        ("dtype: {default: fp32}", 18, "fp32", "float32"),
        ('dtype: {rules: {"*": fp16}}', 22, "fp16", "float16"),
    ],
)
def test_other_types_are_refused_with_the_nearest_name(
    refuse: Callable[..., Any], lines: str, column: int, name: str, near: str | None
) -> None:
    (problem,) = refuse(lines)
    assert problem.subject == f"recipe.yaml:3:{column}"
    assert problem.what == f"`{name}` is not a floating dtype that a cast can make"
    if near is not None:
        assert problem.why == f"did you mean `{near}`?"


@pytest.mark.parametrize(
    ("lines", "column", "what"),
    [
        ("dtype: 16", 8, "`dtype` must be a mapping, not `16`"),
        ("dtype: null", 8, "`dtype` must be a mapping, not null"),
        ("dtype: {default: [a]}", 18, "`default` must be text, not a list of 1"),
        ("dtype: {rule: {a: float16}}", 9, "unknown key `rule`"),
        ("dtype: {rules: [float16]}", 16, "`rules` must be a mapping, not a list of 1"),
    ],
)
def test_other_forms_are_refused(
    refuse: Callable[..., Any], lines: str, column: int, what: str
) -> None:
    (problem,) = refuse(lines)
    assert (problem.subject, problem.what) == (f"recipe.yaml:3:{column}", what)
