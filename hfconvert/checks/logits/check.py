"""The `logits` and `effect` checks, from a question to two `Check`s. Torch-free."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hfconvert.checks.isolated import HarnessError, ask
from hfconvert.checks.result import Check
from hfconvert.findings import Finding, info, warning

LOGITS = "logits"
EFFECT = "effect"
NEAR_CHANCE = 0.95  # a mean loss above this share of chance says nothing
_FIGURES = ("cosine_min", "cosine_mean", "residual", "max_difference", "kl", "top1")
_LISTS = ("by_input", "cosine_by_position", "difference_by_layer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be compared: two folders (or golden logits as the reference), and by which limits.

    `adapters` are those of a merge, as `{"folder": ..., "weight": ...}`: the reference is then the source's
    model with them beside it. `rounding_floor` is the share of the update that rounding takes.
    """

    candidate: Path
    reference: Path
    config: Mapping[str, Any]
    custom: bool = False
    prompts: Sequence[str] | None = None
    adapters: Sequence[Mapping[str, Any]] = ()
    min_cosine: float = 0.999
    max_effect_error: float = 0.05
    rounding_floor: float = 0.0
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Outcomes:
    """One or two checks, what they found beside, and the versions of the libraries that had a part."""

    checks: tuple[Check, ...]
    findings: tuple[Finding, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


def check_logits(question: Question) -> Outcomes:
    """Compare what both sides compute. A fault of the harness is `skipped` with its reason, never a pass."""
    request = {
        "candidate": str(question.candidate),
        "reference": str(question.reference),
        "config": dict(question.config),
        "custom": question.custom,
        "prompts": list(question.prompts) if question.prompts else None,
        "adapters": [dict(one) for one in question.adapters],
        "memory": question.memory,
    }
    merge = bool(question.adapters)
    try:
        answer = ask(LOGITS, request)
    except HarnessError as error:
        return skipped(f"the harness failed: {error}", merge=merge)
    if "skipped" in answer:
        return skipped(f"the harness cannot compare: {answer['skipped']}", merge=merge)
    if "failed" in answer:
        return Outcomes((Check(LOGITS, "fail", detail=answer["failed"]),), (), answer["versions"])
    checks = (_logits(answer, question), *([_effect(answer, question)] if merge else []))
    return Outcomes(checks, tuple(_findings(answer)), answer["versions"])


def skipped(reason: str, *, merge: bool = False) -> Outcomes:
    """Nothing was compared, for this reason."""
    names = (LOGITS, EFFECT) if merge else (LOGITS,)
    return Outcomes(tuple(Check(name, "skipped", detail=reason) for name in names))


def _logits(answer: Mapping[str, Any], question: Question) -> Check:
    """Cosine at every position, and the residual, which sees the scale that cosine is blind to."""
    limit: dict[str, float] = {
        "cosine_min": question.min_cosine,
        "residual": round(math.sqrt(2 * (1 - question.min_cosine)) + 1e-6, 6),
    }
    measured: dict[str, Any] = {name: _rounded(answer[name]) for name in _FIGURES}
    measured |= {name: _rounded(answer[name]) for name in _losses(answer)}
    measured["inputs"] = len(answer["by_input"])
    measured["series"] = {name: _plain(answer[name]) for name in _LISTS}
    measured["peak_memory_bytes"] = answer["peak_memory_bytes"]
    wrong = (
        answer["cosine_min"] < limit["cosine_min"] or not answer["residual"] <= limit["residual"]
    )
    worst = answer["by_input"][0]
    how = ", a layer at a time" if answer["by_layer"] else ""
    detail = f"{answer['output']} of {measured['inputs']} inputs in float32{how}"
    if wrong:
        detail += (
            f"; worst is {worst['input']!r} at position {worst['position']}: cosine "
            f"{worst['cosine_min']:.6f}, residual {worst['residual']:.4g}"
        )
    return Check(LOGITS, "fail" if wrong else "pass", measured, limit, detail)


def _effect(answer: Mapping[str, Any], question: Question) -> Check:
    limit = question.max_effect_error + 3 * question.rounding_floor
    error, effect = answer["effect_error"], answer["effect"]
    measured = {
        "effect_error": _rounded(error),
        "effect": _rounded(effect),
        "rounding_floor": _rounded(question.rounding_floor),
    }
    if effect == 0:
        reason = "the adapter changes nothing on these inputs"
        return Check(EFFECT, "skipped", measured, {}, reason)
    detail = "|merged - reference| / |reference - base|, reference = base with adapter, unmerged"
    return Check(
        EFFECT,
        "pass" if error <= limit else "fail",
        measured,
        {"effect_error": _rounded(limit)},
        detail,
    )


def _losses(answer: Mapping[str, Any]) -> list[str]:
    names = ("loss_reference", "loss", "loss_by_chance")
    return [name for name in names if name in answer]


def _findings(answer: Mapping[str, Any]) -> Iterator[Finding]:
    chance, loss = answer.get("loss_by_chance"), answer.get("loss_reference")
    if chance is not None and loss is not None and not loss < NEAR_CHANCE * chance:
        yield warning(
            LOGITS,
            "",
            f"the source's mean loss on the inputs is {loss:.3f}, chance is {chance:.3f}: "
            "equal logits of a model that knows nothing prove little",
            "give inputs of the kind it was trained on in validate.logits.inputs",
        )
    if not answer["text"]:
        message = (
            "inputs are random numbers from a seed: no tokenizer was found, or it reads no text"
        )
        yield info(LOGITS, "", message, "validate.logits.inputs takes prompts or a file")
    if answer["missing"]:
        names = ", ".join(answer["missing"][:5])
        yield warning(LOGITS, "", f"{len(answer['missing'])} names were not in the result: {names}")


def _plain(value: Any) -> Any:
    """Figures as JSON can hold them: nine digits, null for what is not finite."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return _rounded(value, 9) if isinstance(value, float) else value


def _rounded(value: float, digits: int = 6) -> float | None:
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
