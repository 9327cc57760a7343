"""Between ties and casts: the adapters of a recipe are merged into what is left of its source.

What merges is imported where there is an adapter: a plan without one is made in half the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hfconvert.errors import Problem, UserError, recipe_problem
from hfconvert.findings import Finding, info, warning
from hfconvert.lora.assets import adapter_assets
from hfconvert.lora.embeddings import implied_ties
from hfconvert.lora.kinds import holds_both, is_adapter
from hfconvert.lora.merges import Merges, Result, Setting
from hfconvert.lora.settings import ADAPTER_CONFIG
from hfconvert.planning.decide import Decided
from hfconvert.planning.shards import TextFile
from hfconvert.readers.load import Found
from hfconvert.recipe import Recipe
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.source import LocalFile
from hfconvert.tensors.tally import Tally

NO_MERGES = Merges()


@dataclass(frozen=True, slots=True)
class Source:
    """The base: its folder, None where it is one file, and the repository that it stands for, if any."""

    folder: Path | None
    repo: str | None


def merge(
    recipe: Recipe,
    decided: Decided,
    config: Mapping[str, Any] | None,
    tally: Tally,
    source: Source,
) -> Result:
    """The checkpoint with merging nodes where adapters change it; as it was where there are none.

    UserError with everything that is wrong with the adapters.
    """
    if recipe.lora is None:
        return Result(decided.checkpoint, NO_MERGES, ())
    from hfconvert.lora.apply import merge_adapters  # noqa: PLC0415

    found = {tie.dropped: tie.kept for tie in decided.ties}
    setting = Setting(
        config=config or {},
        ties=found or implied_ties(decided.checkpoint, config or {}),
        source=source.repo,
        where=recipe.position,
        folder=source.folder,
        root=None if recipe.key_map or recipe.source.files else source.folder,
    )
    return merge_adapters(decided.checkpoint, recipe.lora, setting, tally)


def with_assets(copied: Iterable[LocalFile], merges: Merges) -> tuple[LocalFile, ...]:
    """The side files of the base, with tokenizer and template of the adapters that bring their own."""
    files = {file.name: file for file in copied}
    if merges.adapters:
        files.pop(ADAPTER_CONFIG, None)  # what is merged is no adapter any more
    for adapter in merges.adapters:
        files |= {file.name: file for file in adapter_assets(adapter.root)}
    return tuple(files[name] for name in sorted(files))


@dataclass(frozen=True, slots=True)
class Begun:
    """A source before its key map: an adapter by itself, a base with its adapter in place, or neither.

    `texts` are files that are written beside the weights, `stem` the name that they get, if another.
    """

    checkpoint: Checkpoint
    texts: tuple[TextFile, ...] = ()
    stem: str = ""
    findings: tuple[Finding, ...] = ()


def begin(recipe: Recipe, found: Found) -> Begun:
    """Tell adapters from models.

    UserError (exit 2) where base and adapter were swapped, or an adapter's configuration cannot be rebuilt.
    """
    both = holds_both(found.checkpoint)
    alone = not both and is_adapter(found.checkpoint)
    if recipe.lora is not None:
        if alone:
            raise UserError(_swapped(found, recipe.position("lora", "adapters")))
        return _base_of(found.checkpoint) if both else Begun(found.checkpoint)
    if both:
        return Begun(found.checkpoint, findings=(_not_merged(found),))
    if not alone:
        return Begun(found.checkpoint)
    from hfconvert.lora.alone import convert_alone  # noqa: PLC0415

    adapter = convert_alone(found, renames=recipe.key_map is None)
    texts = (TextFile(ADAPTER_CONFIG, adapter.config),) if adapter.config else ()
    return Begun(adapter.checkpoint, texts, adapter.stem, (_by_itself(found), *adapter.findings))


def _base_of(checkpoint: Checkpoint) -> Begun:
    from hfconvert.lora.full_checkpoint import base_part  # noqa: PLC0415

    return Begun(base_part(checkpoint))


def _swapped(found: Found, where: str) -> Problem:
    return recipe_problem(
        f"the source {found.root} holds an adapter, and no model to merge into",
        why="base and adapter were swapped",
        do="give the base as the source, and the adapter under lora.adapters",
        subject=where,
        check="lora",
    )


def _by_itself(found: Found) -> Finding:
    return info(
        "lora",
        str(found.root),
        "an adapter, converted by itself: nothing is merged",
        "to merge it, make its base the source and name this path under lora.adapters",
    )


def _not_merged(found: Found) -> Finding:
    return warning(
        "lora",
        str(found.root),
        "holds a base with its adapter in place; the names stay as they are, and nothing is merged",
        "name this path under lora.adapters too, and the two are merged",
    )
