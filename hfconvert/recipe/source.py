"""`source`: what is read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field
from pydantic.config import JsonDict

from hfconvert.recipe.faults import RefusedError, shown
from hfconvert.recipe.location import LocationText, Repo
from hfconvert.recipe.model import Inside, Model, PathText, Text, unless_placeholder

Format = Literal[
    "auto",
    "torch",
    "safetensors",
    "lightning",
    "deepspeed",
    "dcp",
    "megatron",
    "megatron-dist",
    "meta",
    "nemo",
    "ranks",
]


@unless_placeholder
def _rank_files(text: str) -> str:
    if text.count("{r}") != 1:
        raise RefusedError(
            f"{shown(text)} does not hold {{r}} once",
            why="{r} stands for the rank in the names of the files",
            do='write "rank-{r}.pt"',
        )
    return text


def _only(given: str, other: str) -> JsonDict:
    filled: JsonDict = {"type": "string"}
    empty: JsonDict = {"type": "null"}
    return {"required": [given], "properties": {given: filled, other: empty}}


class Source(Model):
    """What is read: a repository or a path, and which of its weights."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [_only("repo", "path"), _only("path", "repo")]}
    )

    repo: Repo | None = Field(None, description="A repository on the Hub: org/model.")
    path: PathText | None = Field(None, description="A folder or one file; relative to the recipe.")
    revision: Text = Field(
        "main", description="Branch, tag or commit; resolved once to a commit, which is used later."
    )
    subfolder: Inside | None = Field(None, description="A folder inside the source.")
    files: Annotated[tuple[Inside, ...], Field(min_length=1)] | None = Field(
        None, description="Globs of weight files; default: what the index or the conventions name."
    )
    format: Format = Field("auto", description="How the checkpoint was written.")
    weights: Text | None = Field(None, description="Which set of a training checkpoint.")
    checkpoint: Text | None = Field(
        None, description="Which tag, step or iteration when several are there."
    )
    ranks: Annotated[Inside, AfterValidator(_rank_files)] | None = Field(
        None, description='One file a rank, {r} the rank: "rank-{r}.pt"; joined by a `join` step.'
    )
    assets_from: LocationText | None = Field(
        None, description="Path or repo of config, tokenizer, ... when the source has none."
    )
    on_duplicate: Literal["error", "keep-indexed"] = Field(
        "error", description="The same name in two files; equal bytes always keep, with a finding."
    )
    refuse_dangerous: bool = Field(
        default=True,
        description="Stop at a pickle that names a dangerous import.",
    )
