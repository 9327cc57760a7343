from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hfconvert.recipe.bulk import Bulk
from hfconvert.recipe.explain import valid_names
from hfconvert.recipe.models import Recipe


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (
            (),
            ["version", "source", "key_map", "dtype", "lora", "output", "validate", "publish"],
        ),
        (("output",), ["path", "max_shard_size", "filename", "disk"]),
        (("dtype",), ["default", "rules"]),
        (("validate", "logits"), ["inputs", "min_cosine", "max_effect_error"]),
        (("lora", "adapters", 0), ["adapter", "revision", "weight"]),
        (("key_map", 7, "split"), ["from", "into", "dim"]),
        (("key_map", 0, "qkv"), ["from", "into", "layout", "heads", "kv_heads", "gate"]),
        (("key_map", 0, "rename"), []),
        (("nowhere",), []),
    ],
)
def test_valid_names_follow_the_models(path: tuple[str | int, ...], names: list[str]) -> None:
    assert valid_names(Recipe, path) == names


def test_valid_names_of_a_bulk_file() -> None:
    path = ("rules", 1, "recipe", "output")
    assert valid_names(Bulk, path) == ["path", "max_shard_size", "filename", "disk"]
    assert valid_names(Bulk, ("rules", 0)) == ["when", "recipe"]


@pytest.mark.parametrize(
    ("lines", "why", "do"),
    [
        ("sourc: 1", "did you mean `source`?", "write `source`; valid here: version, source"),
        ("DTYPE: keep", "did you mean `dtype`?", "write `dtype`; valid here: version, source"),
        ("max_shard_size: 5GB", "it belongs under `output`", "move it under `output`"),
        ("revision: main", "it belongs under `source`", "move it under `source`"),
        ("tensors: off", "it belongs under `validate`", "move it under `validate`"),
        ("drop: ['*']", "it belongs under `key_map`", "move it under `key_map`"),
        ("zzzz: 1", "", "use one of: version, source, key_map, dtype, lora, output, validate"),
    ],
)
def test_the_way_to_the_right_name(
    refuse: Callable[..., Any], lines: str, why: str, do: str
) -> None:
    (problem,) = refuse(lines)
    assert problem.subject == "recipe.yaml:3:1"
    assert problem.what == f"unknown key `{lines.split(':', maxsplit=1)[0]}`"
    assert problem.why == why
    assert problem.do.startswith(do)


def test_a_list_is_not_called_short_because_its_items_are_wrong(
    refuse: Callable[..., Any],
) -> None:
    problems = refuse("key_map: [{drop: [true, null]}]")
    assert [(problem.subject, problem.what) for problem in problems] == [
        ("recipe.yaml:3:19", "item 1 of `drop` must be text, not `true`"),
        ("recipe.yaml:3:25", "item 2 of `drop` must be text, not null"),
    ]


def test_nothing_more_is_said_of_what_could_not_be_read(refuse: Callable[..., Any]) -> None:
    problems = refuse("lora: {adapters: *a}\noutput: *b\nkey_map: [*c, {drop: *d}]")
    assert [problem.what for problem in problems] == [
        f"aliases are refused: `*{name}`" for name in "abcd"
    ]


def test_a_flood_of_unknown_keys_is_counted(refuse: Callable[..., Any]) -> None:
    problems = refuse("".join(f"key{number}: x\n" for number in range(3000)))
    assert len(problems) == 101
    assert (problems[0].subject, problems[0].what) == ("recipe.yaml:3:1", "unknown key `key0`")
    assert problems[-1].what == "2900 more problems after this"


def test_the_value_is_pointed_at_and_the_key_when_it_is_the_key(
    refuse: Callable[..., Any],
) -> None:
    problems = refuse("output:\n  disk:   tiny\n  disc:   normal\n  filename: {}\n")
    assert [problem.subject for problem in problems] == [
        "recipe.yaml:4:11",
        "recipe.yaml:5:3",
        "recipe.yaml:6:13",
    ]


def test_problems_across_lines_and_kinds_come_sorted(refuse: Callable[..., Any]) -> None:
    problems = refuse("publish: {}\nzz: &a 1\nkey_map: [x]\nkey_map: []\ndtype: '${'\n")
    assert [problem.subject for problem in problems] == [
        "recipe.yaml:3:1",
        "recipe.yaml:4:1",
        "recipe.yaml:4:5",
        "recipe.yaml:5:11",
        "recipe.yaml:6:1",
        "recipe.yaml:7:8",
    ]
