"""The `architecture` check of a conversion: of a plan before it is executed, or of what somebody made.

Only a process of their own imports torch (`checks/isolated.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from hfconvert.findings import Finding, warning
from hfconvert.keymap.fold import listed
from hfconvert.planning.decide import Tie, ties_head
from hfconvert.proving.conversion import Conversion
from hfconvert.readers.config import tied_embeddings
from hfconvert.readers.load import Wanted, load
from hfconvert.recipe import Recipe
from hfconvert.tensors.lazy import TensorSpec


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the command line allows beside what the recipe says."""

    remote_code: bool = False


def prove_architecture(conversion: Conversion, recipe: Recipe, allowed: Allowed) -> Outcome:
    """The `architecture` check of a conversion: nothing but headers is read for it."""
    reference = reference_folder(recipe)
    if reference is not None:
        wanted = {
            name: spec
            for name, spec in _specs_at(reference, recipe).items()
            if name not in conversion.tied
        }
        return check_reference(wanted, conversion.specs, str(recipe.validation.reference))
    if recipe.validation.architecture == "off":
        return skipped("validate.architecture is off")
    model = Model(
        config=conversion.config,
        folder=conversion.config_folder,
        custom=recipe.validation.trust_remote_code and allowed.remote_code,
        changed=conversion.renamed,
        dropped=conversion.dropped,
    )
    return check_architecture(model, conversion.specs)


def unproved_ties(
    ties: Sequence[Tie], config: Mapping[str, Any] | None, loadable: Outcome
) -> Iterator[Finding]:
    """Names that were left out as ties, where nothing shows that a loader restores them."""
    lost = [tie for tie in ties if tie.dropped in loadable.missing]
    if lost:
        message = "lie over one storage with others, but the class does not restore them"
        yield _unrestored(lost, message, "write them too, by a step")
    elif loadable.check.status == "skipped":
        unsaid = [tie for tie in ties if not (tied_embeddings(config) and ties_head(tie))]
        message = "were left out as ties, and nothing proves that a loader restores them"
        why = f"`architecture` was skipped, {loadable.check.detail}; to write them too, add a step"
        if unsaid:
            yield _unrestored(unsaid, message, why)


def _unrestored(ties: Sequence[Tie], message: str, hint: str) -> Finding:
    names = listed([tie.dropped for tie in ties])
    step = f"untie: {{{ties[0].dropped}: {ties[0].kept}}}"
    return warning("ties", "", f"{message}: {names}", f"{hint} `{step}`")


def reference_folder(recipe: Recipe) -> Path | None:
    """The folder of `validate.reference`, None where there is none or where it is a file of golden logits."""
    reference = recipe.validation.reference
    if reference is None or reference.local is None or reference.local.is_file():
        return None
    return reference.local


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
