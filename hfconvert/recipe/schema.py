"""JSON Schema of the recipe and the bulk file, for editors: `configs/*.schema.json` is generated here."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from hfconvert.recipe.bulk import Bulk
from hfconvert.recipe.models import Recipe, Root

SCHEMA_COMMENT = "# yaml-language-server: $schema="
"""How the first line of every example names its schema."""


def recipe_schema() -> dict[str, Any]:
    """The schema of a recipe."""
    return _schema(Recipe, "hfconvert recipe")


def bulk_schema() -> dict[str, Any]:
    """The schema of a bulk file."""
    return _schema(Bulk, "hfconvert bulk file")


def schema_text(schema: dict[str, Any]) -> str:
    """A schema as its file holds it."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


class _Generator(GenerateJsonSchema):
    """Without the titles that only repeat field names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _schema(model: type[Root], title: str) -> dict[str, Any]:
    schema = model.model_json_schema(schema_generator=_Generator)
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": title}
