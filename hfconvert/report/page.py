"""A report as one page that needs nothing else: story, plots, folding tables, search by name.

One template (`templates/page.html.jinja`) makes every page. Whatever comes out of a file (names, messages) is
escaped, and the page forbids itself to load anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from hfconvert.report.documents import report_document
from hfconvert.report.figures import figures
from hfconvert.report.model import Report
from hfconvert.report.plots import Bar, Row, bars, curve
from hfconvert.report.sizes import human
from hfconvert.report.story import story
from hfconvert.tensors.lazy import TensorSpec

MOST_TENSORS = 5000  # rows of the table; a browser searches more than that slowly
_TICKS = re.compile(r"`([^`]+)`")
_WORDS = {"pass": "passed", "fail": "failed", "skipped": "skipped"}


class Plot(NamedTuple):
    """A plot, its heading, and a sentence on how to read it."""

    heading: str
    svg: Markup
    said: str


class TensorRow(NamedTuple):
    """A tensor of the result, as its table shows it."""

    name: str
    dtype: str
    shape: str
    size: str
    origin: str
    steps: str


def report_page(report: Report) -> str:
    """The page of a report of `run` or `verify`."""
    return document_page(report_document(report), list(_tensors(report)))


def document_page(document: Mapping[str, Any], tensors: Sequence[TensorRow] = ()) -> str:
    """The page of a report's JSON document, and of the tensors of the result where they are known."""
    return _ENVIRONMENT.get_template("page.html.jinja").render(
        title=_title(document),
        status=document["status"],
        story=list(story(document)),
        tiles=list(_tiles(document)),
        checks=[_check(one) for one in sorted(document["checks"], key=_is_whole)],
        plots=list(_plots(document)),
        errors=[one for one in document["findings"] if one["level"] == "error"],
        findings=[
            (level, found)
            for level in ("warning", "info")
            if (found := [one for one in document["findings"] if one["level"] == level])
        ],
        files=[(one["file"], human(one["size"]), one["sha256"]) for one in document["outputs"]],
        tensors=tensors[:MOST_TENSORS],
        origins=any(row.origin for row in tensors),
        steps=any(row.steps for row in tensors),
        tensors_beyond=max(0, len(tensors) - MOST_TENSORS),
        dropped=document["dropped"],
        ties=document["ties"],
        pickles=document["pickle"],
        versions=document["versions"],
        digest=document["digest"],
    )


def _title(document: Mapping[str, Any]) -> str:
    source, candidate = document["source"] or {}, document["candidate"] or {}
    origin = source.get("repo") or source.get("path")
    if not origin:
        return "nothing was done"
    target = candidate.get("repo") or candidate.get("path") or document["output"]
    if document["candidate"]:
        return f"{_last(target)} against {_last(origin)}"
    return f"{_last(origin)} to {_last(target)}" if target else _last(origin)


def _last(place: object) -> str:
    """The last two parts of a path or repository."""
    return "/".join(str(place).rstrip("/").split("/")[-2:])


def _tiles(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    totals = document["totals"]
    if totals:
        yield human(totals["source"]["bytes"]), "before"
        yield human(totals["result"]["bytes"]), "after"
        yield f"{totals['result']['tensors']:,}", "tensors"
    made = [one["status"] for one in document["checks"] if one["status"] != "skipped"]
    if made:
        yield f"{made.count('pass')} of {len(made)}", "checks passed"
    if document["seconds"] is not None:
        yield f"{document['seconds']:.1f} s", "time"
    yield human(document["peak_memory_bytes"]), "peak memory"


def _is_whole(check: Mapping[str, Any]) -> bool:
    """Whether a check did not fail: those that did come first."""
    return bool(check["status"] != "fail")


def _check(check: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": check["name"],
        "status": check["status"],
        "word": _WORDS[check["status"]],
        "detail": check["detail"],
        "figures": [one.replace("_", " ") for one in figures(check["measured"])],
        "limits": [f"{name.replace('_', ' ')} {value}" for name, value in check["limit"].items()],
    }


def _plots(document: Mapping[str, Any]) -> Iterator[Plot]:
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


def _tensors(report: Report) -> Iterator[TensorRow]:
    for shard in report.plan.shards if report.plan else ():
        for placed in shard.tensors:
            entry = placed.entry
            origin = ", ".join(entry.sources[:4]) + (" ..." if len(entry.sources) > 4 else "")
            yield _row(placed.name, entry.tensor.spec, origin, ", ".join(entry.steps))
    for pair in report.paired:
        changed = pair.spec.dtype != pair.before.dtype
        cast = f"{pair.before.dtype.code} to {pair.spec.dtype.code}" if changed else ""
        yield _row(pair.name, pair.spec, pair.origin, cast)


def _row(name: str, spec: TensorSpec, origin: str, steps: str) -> TensorRow:
    return TensorRow(
        name,
        spec.dtype.code,
        " x ".join(map(str, spec.shape)) or "scalar",
        human(spec.nbytes),
        "" if origin == name else origin,
        steps,
    )


def _ticked(text: str) -> Markup:
    """Text, escaped, with what stands in backquotes as code."""
    return Markup(_TICKS.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped before


_ENVIRONMENT = Environment(
    loader=PackageLoader("hfconvert.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["ticked"] = _ticked
