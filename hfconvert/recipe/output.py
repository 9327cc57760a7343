"""`output`: what is written, and where."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from hfconvert.recipe.faults import RefusedError, shown
from hfconvert.recipe.model import Model, PathText, Text, unless_placeholder
from hfconvert.recipe.sizes import Size

AUTO = "auto"


@unless_placeholder
def _filename(text: str) -> str:
    if text != AUTO and not re.fullmatch(r"[^/\\\0]+\.safetensors", text):
        raise RefusedError(
            f"{shown(text)} is not the name of a safetensors file",
            why="it is a name without folders that ends with .safetensors",
            do="write model.safetensors, or auto",
        )
    return text


class Output(Model):
    """The folder that results."""

    path: PathText | None = Field(
        None, description="The folder; relative to the recipe. Same as --output."
    )
    max_shard_size: Size = Field(
        5 * 10**9,
        description="The most bytes of tensors in one file; decimal, with a unit.",
        json_schema_extra={"default": "5GB"},
    )
    filename: Annotated[Text, AfterValidator(_filename)] = Field(
        AUTO, description="Name of the weight file; auto: the name the library looks for."
    )
    disk: Literal["normal", "bounded"] = Field(
        "normal", description="bounded: at most one source file and two shards lie on disk."
    )
