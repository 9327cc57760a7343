"""What happened, in a few sentences: the top of a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hfconvert.report.sizes import counted, human

_FATES = ("unchanged", "mapped", "merged", "cast", "dropped", "tied")


def story(document: Mapping[str, Any]) -> Iterator[str]:
    """The sentences that a report's document comes to."""
    totals = document["totals"]
    if totals:
        yield _sizes(totals)
    yield from _outcome(document["checks"], made=bool(totals))
    for check in document["checks"]:
        if check["status"] != "skipped":
            yield from _TOLD.get(check["name"], _nothing)(check)
    yield from _left_out(document["checks"])
    yield from _pickles(document["pickle"])


def _sizes(totals: Mapping[str, Any]) -> str:
    before, after = totals["source"], totals["result"]
    fates = ", ".join(f"{totals[fate]:,} {fate}" for fate in _FATES if totals.get(fate))
    return (
        f"{counted(before['tensors'], 'tensor')} of {human(before['bytes'])} became "
        f"{counted(after['tensors'], 'tensor')} of {human(after['bytes'])}{f': {fates}' if fates else ''}."
    )


def _outcome(checks: list[Mapping[str, Any]], *, made: bool) -> Iterator[str]:
    failed = [one["name"] for one in checks if one["status"] == "fail"]
    passed = [one["name"] for one in checks if one["status"] == "pass"]
    if failed:
        end = "Nothing was handed over." if made else "The two are not the same."
        yield f"Failed: {', '.join(failed)}. {end}"
    elif passed:
        yield f"Every check that could be made passed: {', '.join(passed)}."


def _logits(check: Mapping[str, Any]) -> Iterator[str]:
    found = check["measured"]
    if found.get("cosine_min") is None or not found.get("inputs"):
        return
    top = found.get("top1")
    agree = f"; both choose the same first in {top:.1%} of places" if top is not None else ""
    yield (
        f"Both sides were run on {counted(found['inputs'], 'input')}: the least cosine between their outputs "
        f"is {found['cosine_min']:.6g}{agree}."
    )


def _effect(check: Mapping[str, Any]) -> Iterator[str]:
    found, limit = check["measured"], check["limit"].get("effect_error")
    error = found.get("effect_error")
    if error is None or limit is None:
        return
    floor = found.get("rounding_floor") or 0
    if check["status"] == "pass":
        yield (
            f"The merge does what the adapter did, within {error:.1%} of its effect; rounding alone takes up "
            f"to {floor:.1%}, allowed are {limit:.1%}."
        )
    else:
        yield (
            f"The merge does not do what the adapter did: it is off by {error:.1%} of the effect, "
            f"allowed are {limit:.1%}."
        )


def _nothing(_check: Mapping[str, Any]) -> Iterator[str]:
    return iter(())


_TOLD = {"logits": _logits, "effect": _effect}


def _left_out(checks: list[Mapping[str, Any]]) -> Iterator[str]:
    """What was not done, checks with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for one in checks:
        if one["status"] == "skipped":
            reasons.setdefault(one["detail"], []).append(one["name"])
    for reason, names in reasons.items():
        yield f"Not done: {', '.join(names)} ({reason})."


def _pickles(pickles: list[Mapping[str, Any]]) -> Iterator[str]:
    dangerous = sum(len(one["dangerous"]) for one in pickles)
    if pickles:
        said = counted(dangerous, "dangerous import") if dangerous else "no dangerous import"
        yield f"{counted(len(pickles), 'pickle')} read without running any of it: {said}."
