"""Values of the source in the recipe: `${config.num_attention_heads}`, `${args.num_query_groups}`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hfconvert.recipe.loading import substitute
from hfconvert.recipe.models import Recipe
from hfconvert.recipe.placeholders import placeholders
from hfconvert.recipe.positions import KeyPath

# What may wait for the source to be opened: the source itself and where the result goes may not.
PARTS = ("key_map", "dtype")
ROOTS = ("config", "args", "source")


def filled(recipe: Recipe, config: Mapping[str, Any] | None, args: Mapping[str, Any]) -> Recipe:
    """The recipe with the `${...}` of its key map and dtypes filled in.

    `config` is the source's config.json, `args` the arguments that its run recorded. UserError (exit 2) for
    what they do not have, each at its place.
    """
    if next(placeholders(recipe.document), None) is None:
        return recipe
    source = recipe.source.model_dump(mode="json", exclude_none=True)
    made = substitute(recipe, {"config": config or {}, "args": args, "source": source})
    return recipe.model_copy(update={part: getattr(made, part) for part in PARTS})


def unfilled(recipe: Recipe) -> Iterator[tuple[KeyPath, str]]:
    """The `${...}` that `filled` does not fill in, with the path of the text that holds each."""
    for path, name in placeholders(recipe.document):
        if path[0] not in PARTS or name.partition(".")[0] not in ROOTS:
            yield path, name
