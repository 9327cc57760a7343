"""The `architecture` check, from a question to a `Check`. Imports neither torch nor transformers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hfconvert.checks.isolated import HarnessError, ask, missing_libraries
from hfconvert.checks.result import Check
from hfconvert.findings import Finding, info, warning
from hfconvert.keymap.fold import listed
from hfconvert.tensors.lazy import TensorSpec

NAME = "architecture"
# Models of sounds have quantisers as layers: only these say that the weights are quantised.
_QUANTIZED = ("quantization_config", "compression_config", "quantization")
SHOWN = 6  # lines of a folded table


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a configuration says, where its file lies, and whether code beside it may run.

    `changed`: a recipe changed names, so that they have to be exactly those of the class; otherwise what
    transformers makes of them when it loads them is good enough, as it is for the source. `dropped`: names
    that a rule of the recipe left out, which is the recipe's decision and no fault.
    """

    config: Mapping[str, Any] | None
    folder: Path
    custom: bool = False
    changed: bool = False
    dropped: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Outcome:
    """A check, what it found beside, and the versions of the libraries that had a part in it.

    `missing` are the names that the class would make up on loading.
    """

    check: Check
    findings: tuple[Finding, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def check_architecture(model: Model, specs: Mapping[str, TensorSpec]) -> Outcome:
    """Hold names and shapes of what will be written against the class that the configuration names.

    Skipped, with the reason, where there is no class to hold them against.
    """
    reason = unfit(model.config)
    if reason is not None:
        return skipped(reason)
    request = {
        "config": model.config,
        "folder": str(model.folder),
        "custom": model.custom,
        "tensors": {name: [one.dtype.torch, list(one.shape)] for name, one in specs.items()},
    }
    try:
        answer = ask(NAME, request)
    except HarnessError as error:
        return skipped(f"the class could not be built: {error}")
    if "skipped" in answer:
        return Outcome(Check(NAME, "skipped", detail=answer["skipped"]), (), answer["versions"])
    table, left_out = _without_dropped(
        answer["exact" if model.changed else "loader"], model.dropped
    )
    check = _check(answer, table, changed=model.changed)
    findings = (*_dropped_findings(answer, left_out), *_findings(answer, changed=model.changed))
    return Outcome(check, findings, answer["versions"], tuple(table["missing"]))


def check_reference(
    wanted: Mapping[str, TensorSpec], specs: Mapping[str, TensorSpec], reference: str
) -> Outcome:
    """Hold names and shapes against those of a reference, in place of a class."""
    table = {
        "missing": [name for name in wanted if name not in specs],
        "unexpected": [name for name in specs if name not in wanted],
        "mismatched": [
            [name, str(list(specs[name].shape)), str(list(wanted[name].shape))]
            for name in wanted
            if name in specs and specs[name].shape != wanted[name].shape
        ],
    }
    answer = {
        "class": f"the reference {reference}",
        "expected": len(wanted),
        "found": len(specs),
    }
    return Outcome(_check(answer, table, changed=True))


def skipped(reason: str) -> Outcome:
    """The outcome where there is nothing to hold the names against."""
    return Outcome(Check(NAME, "skipped", detail=reason))


def unfit(config: Mapping[str, Any] | None) -> str | None:
    """Why no class can be built from the configuration, as far as that shows without transformers."""
    absent = missing_libraries()
    if config is None:
        return "there is no config.json"
    named = config.get("architectures")
    if not isinstance(named, list) or not named or not isinstance(named[0], str):
        return "config.json names no class"
    if any(config.get(key) is not None for key in _QUANTIZED):
        return "the weights are quantised: their names are those of a quantiser"
    if absent:
        return f"{' and '.join(absent)} are not installed: pip install 'hfconvert[models]'"
    return None


def _without_dropped(
    table: Mapping[str, Any], dropped: frozenset[str]
) -> tuple[Mapping[str, Any], list[str]]:
    """The table without the missing names that a rule dropped, and those."""
    left_out = [name for name in table["missing"] if name in dropped]
    missing = [name for name in table["missing"] if name not in dropped]
    return {**table, "missing": missing}, left_out


def _dropped_findings(answer: Mapping[str, Any], left_out: Sequence[str]) -> Iterator[Finding]:
    if left_out:
        message = f"{answer['class']} wants {len(left_out)} tensors that the recipe drops"
        hint = "loaders fill them with random values"
        yield warning(NAME, "", f"{message}: {listed(left_out, SHOWN)}", hint)


def _check(answer: Mapping[str, Any], table: Mapping[str, Any], *, changed: bool) -> Check:
    counted = {kind: len(table[kind]) for kind in ("missing", "unexpected", "mismatched")}
    limit = {"missing": 0, "mismatched": 0, **({"unexpected": 0} if changed else {})}
    failed = any(counted[kind] > most for kind, most in limit.items())
    rules = {rule: answer[rule] for rule in ("ties", "buffers", "extra_state") if rule in answer}
    return Check(
        NAME,
        "fail" if failed else "pass",
        {"expected": answer["expected"], "found": answer["found"], **counted, **rules},
        limit,
        f"{answer['class']}: {'; '.join(_lines(table))}" if failed else answer["class"],
    )


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    if table["missing"]:
        yield f"{len(table['missing'])} missing: {listed(table['missing'], SHOWN)}"
    if table["unexpected"]:
        yield f"{len(table['unexpected'])} unexpected: {listed(table['unexpected'], SHOWN)}"
    if table["mismatched"]:
        yield f"{len(table['mismatched'])} mismatched: {_mismatches(table['mismatched'])}"
    if table.get("cause"):
        how, prefix, count = table["cause"]
        verb = "a prefix" if how == "add" else "without the prefix"
        mended = "would mend" if how == "add" else "there would be"
        rest = "" if how == "add" else " that are missing"
        yield f"{verb} `{prefix}` {mended} {count} of {len(table['missing'])}{rest}"


def _mismatches(found: Sequence[Sequence[str]]) -> str:
    """Mismatches with the same shapes together, their names folded."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, here, wanted in found:
        groups.setdefault((here, wanted), []).append(name)
    lines = [
        f"{listed(names, 3)} is {here}, wanted is {wanted}"
        for (here, wanted), names in groups.items()
    ]
    rest = f" and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return ", ".join(lines[:SHOWN]) + rest


def _findings(answer: Mapping[str, Any], *, changed: bool) -> Iterator[Finding]:
    """What is no fault of the conversion and worth knowing: the source is so too."""
    if changed:
        return
    loader, exact = answer["loader"], answer["exact"]
    if loader["unexpected"]:
        names = listed(loader["unexpected"], SHOWN)
        message = f"{answer['class']} does not use {len(loader['unexpected'])} tensors: {names}"
        yield warning(NAME, "", message, "loaders warn of them, of the source's as well")
    renamed = len(exact["unexpected"]) - len(loader["unexpected"])
    if renamed > 0:
        message = f"transformers gives {renamed} names another form when it loads them"
        yield info(NAME, "", message, "they are those of the source")
