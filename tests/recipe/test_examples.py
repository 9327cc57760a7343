"""Every example in `configs/` loads, and names its schema for editors."""

from __future__ import annotations

import os
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # it has no types
import pytest

from hfconvert.recipe import load
from hfconvert.recipe.bulk import load_bulk
from hfconvert.recipe.document import compose
from hfconvert.recipe.schema import SCHEMA_COMMENT, bulk_schema, recipe_schema

CONFIGS = Path(__file__).parents[2] / "configs"
EXAMPLES = sorted(path for path in CONFIGS.rglob("*.yaml"))


def is_bulk(path: Path) -> bool:
    return path.read_text(encoding="utf-8").split("\n", 1)[0].endswith("bulk.schema.json")


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 1


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_the_example_loads(path: Path) -> None:
    if is_bulk(path):
        load_bulk(path)
    else:
        load(path)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_the_first_line_names_the_schema(path: Path) -> None:
    name = "bulk.schema.json" if is_bulk(path) else "recipe.schema.json"
    where = Path(os.path.relpath(CONFIGS / name, path.parent)).as_posix()
    assert path.read_text(encoding="utf-8").split("\n", 1)[0] == SCHEMA_COMMENT + where


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_the_example_fits_the_schema(path: Path) -> None:
    value = compose(path.read_text(encoding="utf-8"), str(path)).value
    schema = bulk_schema() if is_bulk(path) else recipe_schema()
    kinds = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        "array", lambda _, item: isinstance(item, tuple | list)
    )
    validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=kinds)
    assert [error.message for error in validator(schema).iter_errors(value)] == []
