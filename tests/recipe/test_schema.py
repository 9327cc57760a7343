"""The schemas: fresh, and of the same mind as the loader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it has no types
import pytest

from hfconvert.errors import UserError
from hfconvert.recipe import parse
from hfconvert.recipe.bulk import parse_bulk
from hfconvert.recipe.document import compose
from hfconvert.recipe.schema import bulk_schema, recipe_schema, schema_text
from hfconvert.recipe.steps import STEPS

CONFIGS = Path(__file__).parents[2] / "configs"
HEAD = "version: 1\nsource: {path: x}\n"


def as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    return value


def valid(schema: dict[str, Any], text: str) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(as_json(compose(text, "r").value)))


@pytest.mark.parametrize(
    ("name", "schema"),
    [("recipe.schema.json", recipe_schema), ("bulk.schema.json", bulk_schema)],
)
def test_the_files_are_fresh(name: str, schema: Any) -> None:
    """When this fails: `python tests/recipe/test_schema.py` writes them anew."""
    jsonschema.Draft202012Validator.check_schema(schema())
    written = (CONFIGS / name).read_text(encoding="utf-8")
    assert json.loads(written) == schema()  # the order of keys is pydantic's, and changes with it


GOOD = [
    HEAD,
    "version: 1\nsource: {repo: org/model, path: null, revision: 1234567}\n",
    HEAD + "dtype: bfloat16\n",
    HEAD + "dtype: ${config.torch_dtype}\n",
    HEAD + 'dtype: {default: keep, rules: {"*norm*": float32}}\n',
    HEAD + "key_map: []\nlora: null\npublish: null\n",
    HEAD + 'key_map:\n- rename: {a: b}\n- drop: ["*"]\n- join: {a: 0, b: replicated}\n',
    HEAD + "key_map:\n- resize: {a: 5, b: '${config.x}'}\n- family: {name: f, tp: 8}\n",
    HEAD + "key_map:\n- qkv: {from: a, into: [q, k, v], layout: blocked, heads: 4}\n",
    HEAD + "output: {path: out, max_shard_size: 1.5 GiB, disk: bounded}\n",
    HEAD + "validate: {tensors: off, logits: {inputs: [a], min_cosine: 0.9}, reference: ./x}\n",
    HEAD + "lora: {adapters: [{adapter: a/b@c, weight: 1}], lora_alpha: 16}\n",
    HEAD + "publish: {repo: a/b, how: commit}\n",
]
BAD = [
    "source: {path: x}\n",
    "version: 2\nsource: {path: x}\n",
    "version: 1\nsource: {}\n",
    "version: 1\nsource: {path: x, repo: a/b}\n",
    HEAD + "sorce: 1\n",
    HEAD + "dtype: bf16\n",
    HEAD + "dtype: {rule: {}}\n",
    HEAD + "key_map: {}\n",
    HEAD + "key_map: [drop]\n",
    HEAD + "key_map: [{renam: {a: b}}]\n",
    HEAD + "key_map: [{drop: [a], rename: {a: b}}]\n",
    HEAD + "key_map: [{drop: []}]\n",
    HEAD + "key_map: [{rename: {}}]\n",
    HEAD + "key_map: [{split: {from: a, into: [b]}}]\n",
    HEAD + "key_map: [{join: {a: rows}}]\n",
    HEAD + "key_map: [{qkv: {from: a, into: [q, k], layout: blocked}}]\n",
    HEAD + "output: {max_shard_size: 5}\n",
    HEAD + "output: {max_shard_size: 5GX}\n",
    HEAD + "validate: {tensors: false}\n",
    HEAD + "validate: {logits: {min_cosine: 2}}\n",
    HEAD + "lora: {adapters: []}\n",
    HEAD + "publish: {repo: a/b, how: pr}\n",
]


@pytest.mark.parametrize("text", GOOD)
def test_good_recipes_are_good_for_both(text: str) -> None:
    parse(text, "recipe.yaml")
    assert valid(recipe_schema(), text)


@pytest.mark.parametrize("text", BAD)
def test_bad_recipes_are_bad_for_both(text: str) -> None:
    with pytest.raises(UserError):
        parse(text, "recipe.yaml")
    assert not valid(recipe_schema(), text)


RECIPE = "recipe: {source: {repo: '${repo}'}}\n"


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (f"version: 1\norg: a\n{RECIPE}", True),
        (f"version: 1\nrepos: [a/b]\n{RECIPE}limits: {{deadline: 5h, bytes_per_run: 5}}\n", True),
        ("version: 1\norg: a\nrules: [{when: {has: x}, recipe: {source: {path: x}}}]\n", True),
        (f"version: 1\norg: a\nrepos: [a/b]\n{RECIPE}", False),
        (f"version: 1\n{RECIPE}", False),
        ("version: 1\norg: a\n", False),
        (f"version: 1\norg: a\n{RECIPE}limits: {{memory: 5}}\n", False),
        (f"version: 1\norg: a\n{RECIPE}select: {{hass: x}}\n", False),
    ],
)
def test_bulk_files_are_alike_for_both(text: str, good: bool) -> None:
    assert valid(bulk_schema(), text) == good
    if good:
        parse_bulk(text, "bulk.yaml")
    else:
        with pytest.raises(UserError):
            parse_bulk(text, "bulk.yaml")


def test_editors_find_descriptions_and_defaults() -> None:
    schema = recipe_schema()
    assert set(schema["properties"]) == {
        *("version", "source", "key_map", "dtype", "lora", "output", "validate", "publish"),
    }
    assert schema["required"] == ["version", "source"]
    described = [*schema["properties"].values()]
    for name in ("Source", "Lora", "Output", "Validation", "Publish"):
        described += schema["$defs"][name]["properties"].values()
    assert [field for field in described if "description" not in field] == []
    assert schema["$defs"]["Output"]["properties"]["max_shard_size"]["default"] == "5GB"


def test_every_step_is_in_the_schema() -> None:
    steps = recipe_schema()["properties"]["key_map"]["anyOf"][0]["items"]["oneOf"]
    models = [recipe_schema()["$defs"][step["$ref"].rsplit("/", 1)[1]] for step in steps]
    assert [model["required"] for model in models] == [[name] for name in STEPS]


def test_unknown_keys_are_refused_everywhere() -> None:
    models = {**recipe_schema()["$defs"], **bulk_schema()["$defs"]}
    open_models = {
        name for name, model in models.items() if model["additionalProperties"] is not False
    }
    assert open_models == {"FamilyOptions"}


if __name__ == "__main__":
    for file, made in (("recipe", recipe_schema()), ("bulk", bulk_schema())):
        (CONFIGS / f"{file}.schema.json").write_text(schema_text(made), encoding="utf-8")
