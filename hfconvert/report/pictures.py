"""The pictures of a page: which plots a report comes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from hfconvert.report.model import Paired
from hfconvert.report.plots import Bar, Row, bars, curve
from hfconvert.report.sizes import human


class Plot(NamedTuple):
    """A plot, its heading, and a sentence on how to read it."""

    heading: str
    svg: Markup
    said: str


def plots_of(document: Mapping[str, Any]) -> Iterator[Plot]:
    """Sizes, what rounding takes, logits by position, difference by layer: each where its figures are."""
    if document["totals"]:
        yield _sizes(document["totals"])
    for check in document["checks"]:
        series = check["measured"].get("series", {})
        cosines = [one for one in series.get("cosine_by_position", ()) if one is not None]
        layers = [one for one in series.get("difference_by_layer", ()) if one is not None]
        if cosines:
            yield _cosines(cosines, check["limit"].get("cosine_min"))
        if layers:
            yield Plot(
                "Difference by layer",
                curve(layers, "relative difference by layer", limit=None, across="layer"),
                "How far hidden states are apart, relative to their size; the first input.",
            )
        lost = check["measured"].get("lost_by_rounding")
        if lost:
            yield _rounding(lost, document["checks"])


def plot_of_pairs(paired: Sequence[Paired]) -> Plot:
    """Sizes by dtype of both sides of a verification."""
    return _sizes(_paired_sizes(paired))


def _sizes(totals: Mapping[str, Any]) -> Plot:
    codes = list(dict.fromkeys((*totals["source"]["by_dtype"], *totals["result"]["by_dtype"])))
    rows, said = [], []
    for side, label in (("source", "before"), ("result", "after")):
        amounts = totals[side]["by_dtype"]
        parts = [
            Bar(amount["bytes"], codes.index(code) % 6, f"{code}: {human(amount['bytes'])}")
            for code, amount in amounts.items()
        ]
        alone = f" {next(iter(amounts))}" if len(amounts) == 1 else ""
        rows.append(Row(label, parts, f"{human(totals[side]['bytes'])}{alone}"))
        each = ", ".join(f"{code} {human(amount['bytes'])}" for code, amount in amounts.items())
        said.append(f"{label} {each or 'nothing'}")
    return Plot("Sizes by dtype", bars(rows, "bytes before and after, by dtype"), "; ".join(said))


def _paired_sizes(paired: Sequence[Paired]) -> dict[str, Any]:
    """Bytes by dtype of both sides of a verification, in the form of a run's totals."""
    sides: dict[str, Any] = {}
    for side, specs in (
        ("source", [pair.before for pair in paired]),
        ("result", [pair.spec for pair in paired]),
    ):
        by_dtype: dict[str, dict[str, int]] = {}
        for spec in specs:
            amount = by_dtype.setdefault(spec.dtype.code, {"bytes": 0})
            amount["bytes"] += spec.nbytes
        total = sum(amount["bytes"] for amount in by_dtype.values())
        sides[side] = {"by_dtype": by_dtype, "bytes": total}
    return sides


def _cosines(cosines: Sequence[float], least: float | None) -> Plot:
    gaps = [1 - one for one in cosines]
    limit = 1 - least if least is not None else None
    return Plot(
        "Logits by position",
        curve(gaps, "1 - cosine by position", limit=limit, across="position"),
        "1 - cosine between the logits of both sides, the worst input at each position: lower is better.",
    )


def _rounding(lost: Mapping[str, float], checks: Sequence[Mapping[str, Any]]) -> Plot:
    """What rounding takes of the update by family; beside it the error of the whole effect, where known."""
    shares = [(name, share, 0) for name, share in lost.items()]
    effect: Mapping[str, Any] = next(
        (one["measured"] for one in checks if one["name"] == "effect"), {}
    )
    if effect.get("effect_error") is not None:
        shares.append(("whole effect", effect["effect_error"], 1))
    rows = [
        Row(name, [Bar(share, colour, f"{share:.2%}")], f"{share:.2%}")
        for name, share, colour in shares
    ]
    return Plot(
        "What rounding takes of the update"
        if len(rows) == len(lost)
        else "Effect, and what rounding takes",
        bars(rows, "share of the update that rounding takes, by kind of module"),
        "By kind of module, the share of the update that is lost where sums are rounded; last, how far the "
        "merged model is from base and adapter, of what the adapter changes. A wider dtype keeps more."
        if len(rows) > len(lost)
        else "By kind of module, the share of the update that is lost where sums are rounded. A wider dtype "
        "keeps more of what the adapter learned.",
    )
