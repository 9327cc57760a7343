"""The checks that need a model class: of a plan before it is executed, and of what was written after.

Only a process of their own imports torch (`checks/isolated.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hfconvert.checks.architecture.check import (
    Model,
    Outcome,
    check_architecture,
    check_reference,
    skipped,
)
from hfconvert.errors import UserError, recipe_problem
from hfconvert.keymap.prefixes import WRAPPERS, Prefixes
from hfconvert.plan import Plan
from hfconvert.readers.config import CONFIG
from hfconvert.readers.load import Wanted, load
from hfconvert.recipe import Recipe
from hfconvert.tensors.lazy import TensorSpec

_WRAPPERS = Prefixes.of(WRAPPERS)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the command line allows beside what the recipe says."""

    remote_code: bool = False


def prove_architecture(planned: Plan, recipe: Recipe, allowed: Allowed) -> Outcome:
    """The `architecture` check of a plan: nothing but headers was read for it."""
    specs = {
        placed.name: placed.entry.tensor.spec
        for shard in planned.shards
        for placed in shard.tensors
    }
    reference = reference_folder(recipe)
    if reference is not None:
        tied = {tie.dropped for tie in planned.ties} - specs.keys()
        wanted = {
            name: spec for name, spec in _specs_at(reference, recipe).items() if name not in tied
        }
        return check_reference(wanted, specs, str(reference))
    if recipe.validation.architecture == "off":
        return skipped("validate.architecture is off")
    config, folder = planned_config(planned)
    custom = recipe.validation.trust_remote_code and allowed.remote_code
    model = Model(
        config=config,
        folder=folder,
        custom=custom,
        changed=changes_names(planned),
        dropped=frozenset(_WRAPPERS.take_off(one.name).name for one in planned.dropped),
    )
    return check_architecture(model, specs)


def planned_config(planned: Plan) -> tuple[Mapping[str, Any] | None, Path]:
    """The configuration as it will be written, and the folder of the source's."""
    for one in planned.rewritten:
        if one.source.name == CONFIG:
            return _object(one.content), one.source.path.parent
    for copy in planned.copies:
        if copy.name == CONFIG:
            return _object(copy.path.read_bytes()), copy.path.parent
    for text in planned.texts:
        if text.file == CONFIG:
            return _object(text.content), Path(planned.path)
    return None, Path(planned.path)


def changes_names(planned: Plan) -> bool:
    """Whether a tensor is written under another name than the source has, wrappers apart."""
    return any(
        placed.name not in {_WRAPPERS.take_off(name).name for name in placed.entry.sources}
        and placed.name not in placed.entry.sources
        for shard in planned.shards
        for placed in shard.tensors
    )


def reference_folder(recipe: Recipe) -> Path | None:
    """The folder of `validate.reference`, None where there is none or where it is a file of golden logits."""
    reference = recipe.validation.reference
    if reference is None or reference.path is None or reference.path.is_file():
        return None
    return reference.path


def _specs_at(reference: Path, recipe: Recipe) -> dict[str, TensorSpec]:
    if not reference.is_dir():
        raise UserError(
            recipe_problem(
                f"there is no reference at {reference}",
                why="the path is misspelt, or relative to another folder than the recipe's",
                do="correct it, or leave it out",
                subject=recipe.position("validate", "reference"),
            )
        )
    checkpoint = load(reference, Wanted()).checkpoint
    return {name: entry.tensor.spec for name, entry in checkpoint.items()}


def _object(content: bytes) -> Mapping[str, Any] | None:
    try:
        document = json.loads(content)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
