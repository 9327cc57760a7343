"""Between ties and casts: the adapters of a recipe are merged into what is left of its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hfconvert.decide import Decided
from hfconvert.lora.apply import Merges, Result, Setting, merge_adapters
from hfconvert.recipe import Recipe
from hfconvert.tensors.tally import Tally

NO_MERGES = Merges()


def merge(
    recipe: Recipe, decided: Decided, config: Mapping[str, Any] | None, tally: Tally
) -> Result:
    """The checkpoint with merging nodes where adapters change it; as it was where there are none.

    UserError with everything that is wrong with the adapters.
    """
    if recipe.lora is None:
        return Result(decided.checkpoint, NO_MERGES, ())
    setting = Setting(
        config=config or {},
        ties={tie.dropped: tie.kept for tie in decided.ties},
        source=recipe.source.repo,
        where=recipe.position,
    )
    return merge_adapters(decided.checkpoint, recipe.lora, setting, tally)
