"""`validate`: how the result is proved."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StrictFloat, Tag

from hfconvert.recipe.location import LocationText
from hfconvert.recipe.model import Model, PathText, Texts


def _inputs_tag(value: Any) -> str:
    if value == "auto":
        return "is:auto"
    return "is:prompts" if isinstance(value, tuple) else "is:file"


def _logits_tag(value: Any) -> str:
    return "is:limits" if isinstance(value, dict | Logits) else "is:word"


class Logits(Model):
    """The comparison of logits, with its inputs and limits."""

    inputs: Annotated[
        Annotated[Literal["auto"], Tag("is:auto")]
        | Annotated[Texts, Tag("is:prompts")]
        | Annotated[PathText, Tag("is:file")],
        Discriminator(_inputs_tag),
    ] = Field("auto", description="auto, a list of prompts, or a file relative to the recipe.")
    min_cosine: Annotated[StrictFloat, Field(ge=-1, le=1)] = Field(
        0.999, description="The least cosine between logits of source and result."
    )
    max_effect_error: Annotated[StrictFloat, Field(ge=0)] = Field(
        0.05, description="The largest error of a merge's effect, relative to the effect."
    )


class Validation(Model):
    """The checks of a run."""

    tensors: Literal["full", "sample", "off"] = Field(
        "full", description="Compare values with the source; off never publishes."
    )
    architecture: Literal["auto", "off"] = Field(
        "auto", description="Load the result into the class that config.json names."
    )
    logits: Annotated[
        Annotated[Literal["auto", "off"], Tag("is:word")] | Annotated[Logits, Tag("is:limits")],
        Discriminator(_logits_tag),
    ] = Field("auto", description="Compare logits when values change and a model class fits.")
    reference: LocationText | None = Field(
        None, description="Repo or path whose names and logits the result must match."
    )
    trust_remote_code: bool = Field(
        default=False, description="Takes effect only together with --allow-remote-code."
    )
