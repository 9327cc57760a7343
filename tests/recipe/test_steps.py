from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hfconvert.recipe import Recipe
from hfconvert.recipe.steps import STEPS, Family, Rename

FORMS = [
    ("rename", '{"a.{i}.*": "b.{i}.*"}', {"a.{i}.*": "b.{i}.*"}),
    ("rename", "{0: weight, a: 1}", {"0": "weight", "a": "1"}),
    ("strip_prefix", "[module., _orig_mod.]", ("module.", "_orig_mod.")),
    ("add_prefix", '"model."', "model."),
    ("drop", '["*.attn.bias", "optimizer.*"]', ("*.attn.bias", "optimizer.*")),
    (
        "join",
        '{"*.qkv.weight": 0, "*norm*": replicated}',
        {"*.qkv.weight": 0, "*norm*": "replicated"},
    ),
    ("split", "{from: a, into: [b, c], dim: 1}", {"from": "a", "into": ("b", "c"), "dim": 1}),
    ("split", "{from: a, into: [b, c]}", {"from": "a", "into": ("b", "c"), "dim": 0}),
    ("concat", "{from: [a, b], into: c, dim: 0}", {"from": ("a", "b"), "into": "c", "dim": 0}),
    ("stack", '{from: "e.{n}.w", into: e.w, dim: 0}', {"from": "e.{n}.w", "into": "e.w", "dim": 0}),
    ("unstack", '{from: e.w, into: "e.{n}.w"}', {"from": "e.w", "into": "e.{n}.w", "dim": 0}),
    ("transpose", '["*.c_attn.weight"]', ("*.c_attn.weight",)),
    (
        "qkv",
        "{from: x, into: [q, k, v], layout: interleaved, heads: 32, kv_heads: 8}",
        {
            "from": "x",
            "into": ("q", "k", "v"),
            "layout": "interleaved",
            "heads": 32,
            "kv_heads": 8,
            "gate": False,
        },
    ),
    (
        "qkv",
        "{from: [q, k, v], into: x, layout: blocked}",
        {
            "from": ("q", "k", "v"),
            "into": "x",
            "layout": "blocked",
            "heads": None,
            "kv_heads": None,
            "gate": False,
        },
    ),
    (
        "permute_rope",
        "{names: [q, k], heads: '${config.num_attention_heads}', to: half}",
        {"names": ("q", "k"), "heads": "${config.num_attention_heads}", "to": "half"},
    ),
    ("resize", "{embed.weight: 32000, head: '${config.vocab_size}'}", None),
    ("tie", "{lm_head.weight: model.embed_tokens.weight}", None),
    ("untie", "{lm_head.weight: model.embed_tokens.weight}", None),
    ("dequantize", '["*"]', ("*",)),
    ("densify", '["*"]', ("*",)),
    ("family", "{name: megatron-llama, tp: 8, glu: true}", None),
]


@pytest.mark.parametrize(("name", "written", "value"), FORMS)
def test_every_form(read: Callable[..., Recipe], name: str, written: str, value: Any) -> None:
    (step,) = read(f"key_map: [{{{name}: {written}}}]\n").key_map or ()
    assert type(step) is STEPS[name]
    assert step.name == name
    dumped = step.model_dump(by_alias=True)
    assert set(dumped) == {name}
    if value is not None:
        assert dumped == {name: value}


def test_every_step_has_a_form_here() -> None:
    assert {name for name, _, _ in FORMS} == set(STEPS)
    assert all([*model.model_fields] == [name] for name, model in STEPS.items())


def test_steps_keep_their_order(read: Callable[..., Recipe]) -> None:
    steps = read("key_map:\n  - drop: [a]\n  - rename: {a: b}\n  - drop: [c]\n").key_map or ()
    assert [step.name for step in steps] == ["drop", "rename", "drop"]
    assert isinstance(steps[1], Rename)
    assert dict(steps[1].rename) == {"a": "b"}


def test_a_family_takes_options_beside_its_name(read: Callable[..., Recipe]) -> None:
    lines = "key_map: [{family: {name: f, tp: 8, scale: 1.5, glu: true, arch: off, x: null}}]"
    (step,) = read(lines).key_map or ()
    assert isinstance(step, Family)
    assert step.family.name == "f"
    options = {"tp": 8, "scale": 1.5, "glu": True, "arch": "off", "x": None}
    assert dict(step.family.options) == options
    assert [type(value) for value in step.family.options.values()] == [
        type(value) for value in options.values()
    ]


def test_no_key_map_is_not_an_empty_one(read: Callable[..., Recipe]) -> None:
    assert read().key_map is None
    assert read("key_map: []\n").key_map == ()


def test_positions_of_steps_and_of_what_they_hold(read: Callable[..., Recipe]) -> None:
    recipe = read('key_map:\n  - drop: [a]\n  - rename:\n      "x.*": "y.*"\n')
    assert recipe.position("key_map", 1, "rename") == "recipe.yaml:5:5"
    assert recipe.position("key_map", 1, "rename", "x.*") == "recipe.yaml:6:7"
    assert recipe.position("key_map", 0, "drop", 0) == "recipe.yaml:4:12"
    assert recipe.position("key_map", 0, "drop", 7) == "recipe.yaml:4:5"
    assert recipe.position("key_map", 1) == "recipe.yaml:5:5"


@pytest.mark.parametrize(
    ("step", "column", "what"),
    [
        ("rename", 11, "a step is a mapping with one key, not `rename`"),
        ("{}", 11, "a step is a mapping with exactly one key; this has 0"),
        (
            "{drop: [a], rename: {a: b}}",
            11,
            "a step is a mapping with exactly one key; this has 2: `drop`",
        ),
        ("{renam: {a: b}}", 11, "there is no step `renam`"),
        ("{rename: {}}", 20, "`rename` must have at least 1 item, not 0"),
        ("{rename: [a]}", 20, "`rename` must be a mapping, not a list of 1"),
        ("{rename: {a: null}}", 24, "`a` must be text, not null"),
        ("{rename: {a: ''}}", 24, "`a` must not be empty"),
        ("{drop: a}", 18, "`drop` must be a list, not `a`"),
        ("{drop: []}", 18, "`drop` must have at least 1 item, not 0"),
        ("{drop: [[a]]}", 19, "item 1 of `drop` must be text, not a list of 1"),
        ("{drop: null}", 18, "`drop` must be a list, not null"),
        ("{strip_prefix: module.}", 26, "`strip_prefix` must be a list, not `module.`"),
        ("{add_prefix: [a]}", 24, "`add_prefix` must be text, not a list of 1"),
        ("{join: {a: rows}}", 22, "`a` cannot be `rows`"),
        ("{join: {a: -1}}", 22, "`a` must be greater than or equal to 0"),
        ("{join: {a: 1.5}}", 22, "`a` must be a whole number, not `1.5`"),
        ("{split: {from: a}}", 12, "`into` is missing"),
        ("{split: {from: a, into: [b]}}", 35, "`into` must have at least 2 items, not 1"),
        ("{split: {from: a, into: [b, c], dim: x}}", 48, "`dim` must be a whole number, not `x`"),
        ("{split: {from: a, into: [b, c], dmi: 0}}", 43, "unknown key `dmi`"),
        ("{concat: {from: a, into: c}}", 27, "`from` must be a list, not `a`"),
        ("{concat: {from: [a], into: c}}", 27, "`from` must have at least 2 items, not 1"),
        (
            "{qkv: {from: a, into: [b, c], layout: blocked}}",
            33,
            "`into` must have at least 3 items",
        ),
        ("{qkv: {from: a, into: b, layout: blocked}}", 12, "one of `from` and `into` is a name"),
        (
            "{qkv: {from: [a, b, c], into: [d, e, f], layout: blocked}}",
            12,
            "one of `from` and `into` is a name",
        ),
        ("{qkv: {from: a, into: [b, c, d]}}", 12, "`layout` is missing"),
        (
            "{qkv: {from: a, into: [b, c, d], layout: interleavd}}",
            52,
            "`layout` cannot be `interleavd`",
        ),
        (
            "{qkv: {from: a, into: [b, c, d], layout: blocked, heads: 8, kv_heads: 3}}",
            81,
            "8 heads do not divide among 3 key-value heads",
        ),
        (
            "{qkv: {from: a, into: [b, c, d], layout: blocked, kv_heads: 3}}",
            71,
            "`kv_heads` is given without `heads`",
        ),
        ("{permute_rope: {names: [q], heads: 0, to: half}}", 46, "`heads` must be greater than or"),
        ("{permute_rope: {names: [q], heads: eight, to: half}}", 46, "`eight` is not a number"),
        ("{permute_rope: {names: [q], heads: 8, to: full}}", 53, "`to` cannot be `full`"),
        ("{resize: {a: many}}", 24, "`many` is not a number"),
        ("{resize: {a: true}}", 24, "`a` must be a whole number, not `true`"),
        ("{tie: [a, b]}", 17, "`tie` must be a mapping, not a list of 2"),
        ("{family: megatron-llama}", 20, "`family` must be a mapping, not `megatron-llama`"),
        ("{family: {tp: 8}}", 12, "`name` is missing"),
        ("{family: {name: f, tp: [8]}}", 34, "`tp` must be text, a number, true or false"),
    ],
)
def test_refused(refuse: Callable[..., Any], step: str, column: int, what: str) -> None:
    (problem,) = refuse(f"key_map: [{step}]\n")
    assert problem.subject == f"recipe.yaml:3:{column}"
    assert problem.what.startswith(what)


@pytest.mark.parametrize(
    ("step", "near"),
    [
        ("{renam: {a: b}}", "rename"),
        ("{stripprefix: [a]}", "strip_prefix"),
        ("{merge_qkv: {}}", "qkv"),
        ("{qkv: {from: a, into: [b, c, d], layout: blocked, kvheads: 3}}", "kv_heads"),
        ("{permute_rope: {name: [a], names: [a], heads: 1, to: half}}", "names"),
    ],
)
def test_the_nearest_name_is_that_of_the_step_at_hand(
    refuse: Callable[..., Any], step: str, near: str
) -> None:
    (problem,) = refuse(f"key_map: [{step}]\n")
    assert problem.do.startswith(f"write `{near}`; valid here: ")


def test_key_map_must_be_a_list(refuse: Callable[..., Any]) -> None:
    (problem,) = refuse("key_map: {drop: [a]}\n")
    assert (problem.subject, problem.what) == (
        "recipe.yaml:3:10",
        "`key_map` must be a list, not a mapping",
    )
