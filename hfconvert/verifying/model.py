"""`architecture`, `logits` and `effect` of somebody's conversion: whether it loads, and computes the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hfconvert.checks.architecture.check import Outcome
from hfconvert.checks.logits.check import Outcomes, skipped
from hfconvert.checks.result import Check
from hfconvert.findings import Finding, warning
from hfconvert.proving.conversion import Conversion, conversion_of, without_wrappers
from hfconvert.proving.logits import prove_logits
from hfconvert.proving.models import Allowed, prove_architecture
from hfconvert.recipe import Recipe, parse
from hfconvert.verifying.sides import Side

Pairs = Mapping[str, str]  # the candidate's names with the source's


@dataclass(frozen=True, slots=True)
class Modelled:
    """The checks that needed a model, what they found beside, and the versions of the libraries they used."""

    checks: tuple[Check, ...]
    findings: tuple[Finding, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


def check_model(
    ours: Side,
    theirs: Side,
    pairs: Pairs,
    allowed: Allowed,
    done: Sequence[Check],
) -> Modelled:
    """Load the candidate's class and compare what both sides compute, as a run does after its own checks.

    `done` are the checks before. Nothing is asked where one of those failed: the two differ, and that is
    said already.
    """
    conversion = _conversion(ours, theirs, pairs)
    asked = ours.recipe or parse(
        json.dumps({"version": 1, "source": {"path": str(ours.path)}}), "-"
    )
    reason = _needless(theirs, done)
    if reason:
        left_out = skipped(reason, merge=bool(conversion.adapters))
        return Modelled((Check("architecture", "skipped", detail=reason), *left_out.checks))
    loadable = _as_the_source(prove_architecture(conversion, asked, allowed), conversion)
    computed = _computed(conversion, asked, theirs, allowed, (*done, loadable.check))
    return Modelled(
        (loadable.check, *computed.checks),
        (*loadable.findings, *computed.findings),
        {**loadable.versions, **computed.versions},
    )


def _computed(
    conversion: Conversion, recipe: Recipe, theirs: Side, allowed: Allowed, done: Sequence[Check]
) -> Outcomes:
    reason = _needless(theirs, done)
    if reason:
        return skipped(reason, merge=bool(conversion.adapters))
    return prove_logits(conversion, recipe, theirs.path, allowed, done)


def _needless(theirs: Side, done: Sequence[Check]) -> str:
    """Why no model is asked; empty where one is."""
    failed = [check.name for check in done if check.status == "fail"]
    if failed:
        return f"not asked: {', '.join(failed)} failed already"
    return "" if theirs.is_folder else "the candidate is a single file"


def _conversion(ours: Side, theirs: Side, pairs: Pairs) -> Conversion:
    """What lies between: by the recipe's plan, else between tensors that were found to be the same."""
    found = Conversion(
        source=ours.path,
        config=theirs.config,
        config_folder=theirs.path if theirs.is_folder else theirs.path.parent,
        specs={name: one.spec for name, one in theirs.stored.items()},
        tied=frozenset(tie.dropped for tie in (*theirs.ties, *ours.ties)),
        same_names=all(name == origin for name, origin in pairs.items()),
        renamed=any(
            name not in (origin, without_wrappers(origin)) for name, origin in pairs.items()
        ),
        way="cast" if _casts(ours, theirs, pairs) else "kept",
    )
    if ours.plan is None:
        return found
    planned = conversion_of(ours.plan)
    return replace(
        planned,
        config=found.config,
        config_folder=found.config_folder,
        specs=found.specs,
        tied=found.tied,
    )


def _casts(ours: Side, theirs: Side, pairs: Pairs) -> bool:
    return any(
        ours.tensors[origin].spec.dtype != theirs.tensors[name].spec.dtype
        for name, origin in pairs.items()
    )


def _as_the_source(outcome: Outcome, conversion: Conversion) -> Outcome:
    """The outcome; that the source's own names and shapes do not fit is no fault of a conversion."""
    if outcome.check.status != "fail" or conversion.renamed or conversion.way == "made":
        return outcome
    if conversion.tied.intersection(outcome.missing):  # the source has these by their own names
        return outcome
    detail = f"the source's own names and shapes do not fit: {outcome.check.detail}"
    said = warning(
        "architecture",
        "",
        f"neither side loads into the class that config.json names: {outcome.check.detail}",
        "no conversion mends that: config.json, or the class, is not that of the weights",
    )
    check = replace(outcome.check, status="skipped", detail=detail)
    return replace(outcome, check=check, findings=(*outcome.findings, said))
