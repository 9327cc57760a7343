"""Whether logits have to be compared after a run, and against what; then the checks `logits` and `effect`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hfconvert.checks.logits.check import Outcomes, Question, check_logits, skipped
from hfconvert.checks.result import Check
from hfconvert.errors import UserError, recipe_problem
from hfconvert.findings import warning
from hfconvert.proving.conversion import Conversion
from hfconvert.proving.models import Allowed
from hfconvert.recipe import Recipe
from hfconvert.recipe.validation import Logits

MAX_PROMPTS = 1 << 20  # bytes of a file of prompts
_GOLDEN = (".safetensors", ".npz", ".json")


def prove_logits(
    conversion: Conversion, recipe: Recipe, folder: Path, allowed: Allowed, done: Sequence[Check]
) -> Outcomes:
    """Compare what the source's model and that in `folder` compute, where values changed and a class fits.

    `done` are the checks before this one: the class has to fit, and `merge` knows what rounding takes.
    """
    merge = bool(conversion.adapters)
    wish = recipe.validation.logits
    if wish == "off":
        return skipped("validate.logits is off", merge=merge)
    reference, reason = _reference(conversion, recipe)
    status = {check.name: check for check in done}
    architecture = status.get("architecture")
    if reference is None:
        return skipped(reason, merge=merge)
    if architecture is None or architecture.status != "pass":
        detail = architecture.detail if architecture else ""
        return skipped(f"no class of transformers fits: {detail}", merge=merge)
    limits = wish if isinstance(wish, Logits) else Logits()
    golden = reference.is_file()
    outcomes = check_logits(
        Question(
            candidate=folder,
            reference=reference,
            config=conversion.config or {},
            custom=recipe.validation.trust_remote_code and allowed.remote_code,
            prompts=_prompts(limits, recipe),
            adapters=[] if golden or recipe.validation.reference else _adapters(conversion),
            min_cosine=limits.min_cosine,
            max_effect_error=limits.max_effect_error,
            rounding_floor=_rounding_floor(status.get("merge")),
        )
    )
    by_itself = conversion.way == "cast" and recipe.validation.reference is None
    proved = by_itself and _all_values_held(status)
    return _moved_by_rounding(outcomes) if proved and wish == "auto" else outcomes


def _all_values_held(done: Mapping[str, Check]) -> bool:
    """Whether the `tensors` check held every value against the source, rounded once where it was cast."""
    tensors = done.get("tensors")
    return tensors is not None and tensors.status == "pass" and "share" not in tensors.measured


def _moved_by_rounding(outcomes: Outcomes) -> Outcomes:
    """Outcomes of a cast whose every value is right: logits that move do so by the dtype's rounding alone.

    That is what the recipe asked for, so it is said and fails nothing; a limit in the recipe still does.
    """
    moved = [one for one in outcomes.checks if one.name == "logits" and one.status == "fail"]
    if not moved:
        return outcomes
    said = warning(
        "logits",
        "",
        f"the cast moves the logits: {moved[0].detail}",
        "every value is the source's, rounded once; keep a wider dtype where that is too much",
    )
    checks = tuple(
        replace(one, status="pass", limit={}, detail=f"by rounding alone: {one.detail}")
        if one in moved
        else one
        for one in outcomes.checks
    )
    return replace(outcomes, checks=checks, findings=(*outcomes.findings, said))


def _reference(conversion: Conversion, recipe: Recipe) -> tuple[Path | None, str]:
    """What to compare with; or None and the reason why there is nothing or no need."""
    given = recipe.validation.reference
    if given is not None and given.local is not None:
        return given.local, ""
    if isinstance(recipe.validation.logits, Logits):
        path = recipe.validation.logits.inputs
        if isinstance(path, Path) and path.suffix in _GOLDEN and path.suffix != ".json":
            return path, ""
    if conversion.way == "kept" and not conversion.renamed:
        return None, "every value is the source's, bit for bit: so are the logits"
    source = conversion.source
    if not source.is_dir() or not (source / "config.json").is_file():
        return None, "transformers cannot read the source: it is no folder with a config.json"
    if recipe.source.files or recipe.source.weights or not conversion.same_names:
        return None, (
            "transformers cannot read the source as it is, since its names are others or its files were "
            "chosen: validate.reference takes a folder, or golden logits"
        )
    return source, ""


def _prompts(limits: Logits, recipe: Recipe) -> list[str] | None:
    """Prompts of the recipe, or of a file with one a line."""
    if isinstance(limits.inputs, tuple):
        return list(limits.inputs)
    if not isinstance(limits.inputs, Path) or limits.inputs.suffix in {".safetensors", ".npz"}:
        return None
    try:
        text = limits.inputs.read_bytes()[:MAX_PROMPTS].decode("utf-8", errors="ignore")
    except OSError as error:
        raise UserError(
            recipe_problem(
                f"the inputs cannot be read: {limits.inputs}: {error.strerror}",
                why="the path is misspelt, or relative to another folder than the recipe's",
                do="name a text file with one prompt a line",
                subject=recipe.position("validate", "logits", "inputs"),
            )
        ) from error
    return [line for line in text.splitlines() if line.strip()][:64] or None


def _adapters(conversion: Conversion) -> list[Mapping[str, Any]]:
    return [
        {"folder": str(one.folder), "weight": one.weight, "config": one.config}
        for one in conversion.adapters
    ]


def _rounding_floor(merge: Check | None) -> float:
    """The largest share of an update that rounding takes, over the families of modules."""
    lost = merge.measured.get("lost_by_rounding", {}) if merge else {}
    return max((float(share) for share in lost.values()), default=0.0)
