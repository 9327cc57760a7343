"""The recipe as one frozen value."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr

from hfconvert.recipe.casts import Dtype, DtypeField
from hfconvert.recipe.document import Document, compose
from hfconvert.recipe.faults import RefusedError, shown
from hfconvert.recipe.lora import Lora
from hfconvert.recipe.model import Model
from hfconvert.recipe.output import Output
from hfconvert.recipe.publish import Publish
from hfconvert.recipe.source import Source
from hfconvert.recipe.steps import Step
from hfconvert.recipe.validation import Validation


def _version(value: Any) -> Any:
    if type(value) is not bool and isinstance(value, int) and value == 1:
        return 1
    raise RefusedError(
        f"{shown(value)} is not a version that this hfconvert reads",
        why="the file was written for a later hfconvert" if isinstance(value, int) else "",
        do="write version: 1",
    )


Version = Annotated[Literal[1], BeforeValidator(_version)]


class Root(Model):
    """The top of a file: knows the text that it was read from."""

    _document: Document = PrivateAttr(default_factory=lambda: compose("", "recipe.yaml"))
    _base: Path = PrivateAttr(default_factory=Path)

    @property
    def base(self) -> Path:
        """The folder of the file. Its own paths start from there already."""
        return self._base

    @property
    def document(self) -> Document:
        """The text as plain values with positions."""
        return self._document

    def position(self, *path: str | int) -> str:
        """Where a key or an item of a list stands: `recipe.yaml:12:7`, or `--set key.path`.

        `path` is as the file writes it: `("key_map", 3, "rename")`. Of what is not written, the nearest
        part around it that is.
        """
        return str(self._document.positions.key(path))

    def remember(self, document: Document, base: Path) -> None:
        """Keep what the value was read from; only the loader calls it, once."""
        self._document = document
        self._base = base


class RecipeBody(Model):
    """What a recipe says, wherever it stands."""

    version: Version = Field(description="The version of the recipe's form: 1.")
    source: Source = Field(description="What is read.")
    key_map: tuple[Step, ...] | None = Field(
        None, description="Ordered steps; absent: those of the family that the checkpoint names."
    )
    dtype: DtypeField = Field(
        default_factory=Dtype,
        description="keep, a dtype, or {default, rules}.",
        json_schema_extra={"default": "keep"},
    )
    lora: Lora | None = Field(None, description="Adapters to merge.")
    output: Output = Field(default_factory=Output, description="What is written, and where.")
    validation: Validation = Field(
        default_factory=Validation, alias="validate", description="How the result is proved."
    )
    publish: Publish | None = Field(None, description="Absent: nothing is published.")


class Recipe(RecipeBody, Root):
    """A recipe, as design and schema describe it; relative paths are resolved already."""
