"""`publish`: where the result and its proof go."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from hfconvert.recipe.location import Repo, check_repo
from hfconvert.recipe.model import Model, Text, unless_placeholder


@unless_placeholder
def _adapter(text: str) -> str:
    return text if text in {"none", "beside"} else check_repo(text)


class Publish(Model):
    """One pull request or commit on the Hub."""

    how: Literal["pull_request", "commit"] = Field("pull_request", description="What is made.")
    repo: Repo | None = Field(
        None, description="Default: the source repo; must be another for a merge."
    )
    private: bool = Field(
        default=True, description="Whether a repository that has to be created is private."
    )
    replace_weights: bool = Field(
        default=False, description="Allow other values (a cast) over a repository's own weights."
    )
    adapter: Annotated[Text, AfterValidator(_adapter)] = Field(
        "none", description="beside, or a repo: publish the adapter with its configuration too."
    )
