from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.recipe import Recipe
from hfconvert.recipe.document import compose
from hfconvert.recipe.placeholders import fill_in, placeholders


def test_found_wherever_text_stands(read: Callable[..., Recipe]) -> None:
    recipe = read("key_map:\n  - rename: {'a${config.x}b${args.y}': 'c${source.repo}'}\n")
    path = ("key_map", 0, "rename", "a${config.x}b${args.y}")
    assert list(placeholders(recipe.document)) == [
        (path, "config.x"),
        (path, "args.y"),
        (path, "source.repo"),
    ]


@pytest.mark.parametrize(
    "name", ["config.a", "args.b_c", "source.repo", "adapter.base", "config.a.0.b"]
)
def test_known_roots(read: Callable[..., Recipe], name: str) -> None:
    assert read(f"dtype: ${{{name}}}").dtype.default == f"${{{name}}}"


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("${config.x", "`${config.x` is not closed", "end it with }"),
        ("a${", "`${` is not closed", "end it with }"),
        ("${}", "`${}` is not a name", "write ${a.b}"),
        ("${config. x}", "`${config. x}` is not a name", "write ${a.b}"),
        ("${config}", "`${config}` is not a value", "write ${config.name}"),
        ("${confg.x}", "`${confg.x}` begins with an unknown name", "write `config`; valid here"),
        ("${env.HOME}", "`${env.HOME}` begins with an unknown name", "use one of: config, args"),
        ("${repo}", "`${repo}` begins with an unknown name", "use one of: config, args"),
    ],
)
def test_refused(refuse: Callable[..., Any], text: str, what: str, hint: str) -> None:
    (problem,) = refuse(f"key_map: [{{drop: ['{text}']}}]")
    assert (problem.subject, problem.what) == ("recipe.yaml:3:19", what)
    assert problem.do.startswith(hint)


def test_a_dollar_alone_is_text(read: Callable[..., Recipe]) -> None:
    (step,) = read("key_map: [{drop: ['a$b', '$', '{x}']}]").key_map or ()
    assert step.model_dump() == {"drop": ("a$b", "$", "{x}")}


@given(st.text(), st.integers() | st.text())
def test_filling_in_puts_the_value_where_the_name_stood(around: str, value: int | str) -> None:
    around = around.replace("${", "")
    document = compose("a: 0", "r.yaml")
    document.value["a"] = f"{around}${{config.x}}{around}"
    filled = fill_in(document, {"config": {"x": value}}).value["a"]
    assert filled == (f"{around}{value}{around}" if around else value)


def test_only_texts_change() -> None:
    document = compose("a: [1, null, true, '${config.x}', {b: '${args.y}'}]", "r.yaml")
    filled = fill_in(document, {"config": {"x": 2}})
    assert filled.value == {"a": (1, None, True, 2, {"b": "${args.y}"})}
    assert filled.faults == ()
