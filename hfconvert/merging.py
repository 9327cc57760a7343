"""Between ties and casts: the adapters of a recipe are merged into what is left of its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hfconvert.decide import Decided
from hfconvert.lora.apply import Merges, Result, Setting, merge_adapters
from hfconvert.lora.assets import adapter_assets
from hfconvert.lora.embeddings import implied_ties
from hfconvert.recipe import Recipe
from hfconvert.tensors.source import LocalFile
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
    found = {tie.dropped: tie.kept for tie in decided.ties}
    setting = Setting(
        config=config or {},
        ties=found or implied_ties(decided.checkpoint, config or {}),
        source=recipe.source.repo,
        where=recipe.position,
    )
    return merge_adapters(decided.checkpoint, recipe.lora, setting, tally)


def with_assets(copied: Iterable[LocalFile], merges: Merges) -> tuple[LocalFile, ...]:
    """The side files of the base, with tokenizer and template of the adapters that bring their own."""
    files = {file.name: file for file in copied}
    for adapter in merges.adapters:
        files |= {file.name: file for file in adapter_assets(adapter.root)}
    return tuple(files[name] for name in sorted(files))
