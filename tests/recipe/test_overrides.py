from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.recipe import Recipe, parse


@pytest.mark.parametrize(
    ("overrides", "get", "value"),
    [
        (["dtype=bfloat16"], lambda r: r.dtype.default, "bfloat16"),
        (["dtype=float16", "dtype=keep"], lambda r: r.dtype.default, "keep"),
        (["dtype.default=float16"], lambda r: r.dtype.default, "float16"),
        (["dtype={rules: {'*': float16}}"], lambda r: dict(r.dtype.rules), {"*": "float16"}),
        (["dtype.rules.*norm*=float32"], lambda r: dict(r.dtype.rules), {"*norm*": "float32"}),
        (["source.revision=0123"], lambda r: r.source.revision, "0123"),
        (["source.revision=off"], lambda r: r.source.revision, "off"),
        (["source.revision=a=b"], lambda r: r.source.revision, "a=b"),
        (["source.weights=null"], lambda r: r.source.weights, None),
        (["source.weights="], lambda r: r.source.weights, None),
        (["source.path=other"], lambda r: r.source.path, Path("other")),
        (["output.max_shard_size=1MB"], lambda r: r.output.max_shard_size, 1_000_000),
        (["key_map.0.drop=[a]"], lambda r: r.key_map[0].drop, ("a",)),
        (["key_map.0={drop: [a]}", "key_map.1.tie={a: b}"], lambda r: len(r.key_map), 2),
        (["key_map=[]"], lambda r: r.key_map, ()),
        (["validate.logits.min_cosine=0.5"], lambda r: r.validation.logits.min_cosine, 0.5),
        (["lora.adapters.0.adapter=./a"], lambda r: len(r.lora.adapters), 1),
        (["publish.repo=a/b", "publish=null"], lambda r: r.publish, None),
    ],
)
def test_values_are_put_in(
    read: Callable[..., Recipe], overrides: list[str], get: Callable[[Any], Any], value: Any
) -> None:
    assert get(read("", *overrides)) == value


def test_items_of_a_list_are_replaced_and_appended(read: Callable[..., Recipe]) -> None:
    lines = "key_map:\n  - drop: [a, b]\n  - rename: {a: b}\n"
    recipe = read(lines, "key_map.0.drop.1=c", "key_map.0.drop.2=d", "key_map.2.drop=[e]")
    assert [step.model_dump() for step in recipe.key_map or ()] == [
        {"drop": ("a", "c", "d")},
        {"rename": {"a": "b"}},
        {"drop": ("e",)},
    ]


def test_positions_name_the_override(read: Callable[..., Recipe]) -> None:
    recipe = read("key_map:\n  - drop: [a]\n", "key_map.1={rename: {x: y}}", "publish.repo=a/b")
    assert recipe.position("key_map", 0, "drop") == "recipe.yaml:4:5"
    assert recipe.position("key_map", 1, "rename", "x") == "--set key_map.1"
    assert recipe.position("publish") == "--set publish.repo"
    assert recipe.position("publish", "repo") == "--set publish.repo"
    assert recipe.position("source") == "recipe.yaml:2:1"


def test_an_override_mends_the_file(read: Callable[..., Recipe]) -> None:
    recipe = read("dtype: bf16\noutput: {max_shard_size: 5}\n", "dtype=bfloat16", "output={}")
    assert recipe.dtype.default == "bfloat16"


@pytest.mark.parametrize(
    ("override", "subject", "what"),
    [
        ("dtype", "--set dtype", "is not key.path=value"),
        ("a\n\x1b[31m", "--set a\\n\\x1b[31m", "is not key.path=value"),
        ("=x", "--set =x", "is not key.path=value"),
        ("a..b=x", "--set a..b=x", "is not key.path=value"),
        (".a=x", "--set .a=x", "is not key.path=value"),
        ("dtype=bf16", "--set dtype", "`bf16` is not a floating dtype that a cast can make"),
        ("dtype=[a", "--set dtype", "not YAML: expected ',' or ']', but got '<stream end>'"),
        ("dtype=*a", "--set dtype", "aliases are refused: `*a`"),
        ("dtype=\x07", "--set dtype", "the character U+0007 is not allowed in YAML"),
        ("output={path: a, path: b}", "--set output", "`path` stands here a second time"),
        ("sorce.path=x", "--set sorce.path", "unknown key `sorce`"),
        ("source.pth=x", "--set source.pth", "unknown key `pth`"),
        ("version.a=x", "--set version.a", "`version` is `1`, which has no parts"),
        ("key_map.1.drop=[a]", "--set key_map.1.drop", "`1` is not an index of `key_map`"),
        ("key_map.drop=[a]", "--set key_map.drop", "`key_map` must be a list, not a mapping"),
        (
            "source.path.x=y",
            "--set source.path.x",
            "`source.path` is `./model`, which has no parts",
        ),
        ("publish={}", "--set publish", "no repository is named"),
        ("source.repo=a/b", "recipe.yaml:2:16", "both `repo` and `path` are given"),
        ("weights=${foo.x}", "--set weights", "`${foo.x}` begins with an unknown name"),
    ],
)
def test_refused(refuse: Callable[..., Any], override: str, subject: str, what: str) -> None:
    problems = refuse("", override)
    assert (subject, what) in [(problem.subject, problem.what) for problem in problems]


def test_a_list_that_is_there_takes_numbers_only(refuse: Callable[..., Any]) -> None:
    lines = "key_map: [{drop: [a]}]\n"
    (problem,) = refuse(lines, "key_map.drop=[b]")
    assert problem.what == "`drop` is not an index of `key_map`"
    assert problem.do == "use 0 to 1; 1 appends"


def test_the_nearest_name_of_a_wrong_path(refuse: Callable[..., Any]) -> None:
    (problem,) = refuse("", "validate.tensor=off")
    assert problem.do.startswith("write `tensors`; ")


def test_problems_of_file_and_command_line_come_together(refuse: Callable[..., Any]) -> None:
    problems = refuse("outputs: {}\n", "dtype=x", "=", "publish.how=y")
    assert [problem.subject for problem in problems] == [
        "--set dtype",
        "--set =",
        "--set publish.how",
        "--set publish.how",
        "recipe.yaml:3:1",
    ]


def test_an_override_of_a_file_that_cannot_be_read(refuse: Callable[..., Any]) -> None:
    problems = refuse("x: [", "source.revision=x", "dtype=bf16", "=")
    assert [(problem.subject, problem.what.split(":")[0]) for problem in problems] == [
        ("--set =", "is not key.path=value"),
        ("recipe.yaml:3:5", "not YAML"),
    ]


@given(
    st.text(st.characters(codec="ascii", exclude_categories=["C"])),
    st.sampled_from(["revision", "weights", "checkpoint"]),
)
def test_whatever_is_quoted_arrives(text: str, field: str) -> None:
    quoted = "'" + (text or "x").replace("'", "''") + "'"
    head = "version: 1\nsource: {path: x}\n"
    if "${" not in text:
        recipe = parse(head, "recipe.yaml", [f"source.{field}={quoted}"])
        assert getattr(recipe.source, field) == (text or "x")
