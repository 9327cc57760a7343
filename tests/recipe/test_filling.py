from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.recipe import Recipe
from hfconvert.recipe.filling import filled, unfilled

Read = Callable[..., Recipe]
QKV = (
    "key_map: [{qkv: {from: a, into: [q, k, v], layout: interleaved, "
    'heads: "${config.n_head}", kv_heads: "${args.groups}"}}]'
)


def test_numbers_stay_numbers(read: Read) -> None:
    made = filled(read(QKV), {"n_head": 8}, {"groups": 2})
    assert made.key_map is not None
    step: Any = made.key_map[0]
    assert (step.qkv.heads, step.qkv.kv_heads) == (8, 2)


def test_what_the_source_does_not_have_is_said_at_its_place(read: Read) -> None:
    with pytest.raises(UserError) as caught:
        filled(read(QKV), None, {"groups": 2})
    (problem,) = caught.value.problems
    assert problem.exit == Exit.RECIPE
    assert problem.subject == "recipe.yaml:3:72"
    assert problem.what.startswith("`${config.n_head}` has no value")


def test_parts_of_the_source_and_inner_configurations(read: Read) -> None:
    lines = 'key_map: [{add_prefix: "${source.weights}."}, {resize: {w: "${config.text.v}"}}]'
    recipe = read(lines, head="version: 1\nsource: {path: x, weights: ema}\n")
    made = filled(recipe, {"text": {"v": 30}}, {})
    assert made.key_map is not None
    assert [step.model_dump() for step in made.key_map] == [
        {"add_prefix": "ema."},
        {"resize": {"w": 30}},
    ]


def test_a_recipe_without_any_is_the_same(read: Read) -> None:
    recipe = read("dtype: bfloat16")
    assert filled(recipe, None, {}) is recipe


def test_an_output_chosen_on_the_command_line_stays(read: Read) -> None:
    recipe = read('dtype: "${config.dtype}"')
    other = recipe.model_copy(
        update={"output": recipe.output.model_copy(update={"filename": "x.safetensors"})}
    )
    made = filled(other, {"dtype": "float16"}, {})
    assert made.output.filename == "x.safetensors"
    assert made.dtype.default == "float16"
    assert made.position("dtype") == recipe.position("dtype")


def test_a_value_that_its_field_refuses(read: Read) -> None:
    with pytest.raises(UserError) as caught:
        filled(read('key_map: [{resize: {w: "${config.v}"}}]'), {"v": 0}, {})
    assert [problem.subject for problem in caught.value.problems] == ["recipe.yaml:3:24"]


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ('key_map: [{drop: ["${config.a}", "${args.b}"]}]', []),
        ('key_map: [{drop: ["${adapter.a}"]}]', ["adapter.a"]),
        ('output: {path: "${source.weights}"}', ["source.weights"]),
    ],
)
def test_what_is_not_filled_in(read: Read, lines: str, left: list[str]) -> None:
    assert [name for _, name in unfilled(read(lines))] == left
