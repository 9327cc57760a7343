"""A report as one page that needs nothing else: story, plots, folding tables, search by name.

One template (`templates/page.html.jinja`) makes every page. Whatever comes out of a file (names, messages) is
escaped, and the page forbids itself to load anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hfconvert.report.documents import report_document
from hfconvert.report.figures import figures
from hfconvert.report.model import Report
from hfconvert.report.plots import Bar, Row, bars, curve
from hfconvert.report.sizes import counted, human

MOST_TENSORS = 5000  # rows of the table; a browser searches more than that slowly
_LEVELS = ("error", "warning", "info")
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
        story=list(_story(document)),
        tiles=list(_tiles(document)),
        checks=[_check(one) for one in document["checks"]],
        plots=list(_plots(document)),
        findings=[
            (level, [one for one in document["findings"] if one["level"] == level])
            for level in _LEVELS
        ],
        files=[(one["file"], human(one["size"]), one["sha256"]) for one in document["outputs"]],
        tensors=tensors[:MOST_TENSORS],
        tensors_beyond=max(0, len(tensors) - MOST_TENSORS),
        dropped=document["dropped"],
        ties=document["ties"],
        pickles=document["pickle"],
        versions=document["versions"],
        digest=document["digest"],
    )


def _title(document: Mapping[str, Any]) -> str:
    source, candidate = document["source"] or {}, document["candidate"] or {}
    origin = source.get("repo") or source.get("path") or "nothing"
    target = candidate.get("repo") or candidate.get("path") or document["output"]
    if document["candidate"]:
        return f"{_last(target)} against {_last(origin)}"
    return f"{_last(origin)} to {_last(target)}" if target else _last(origin)


def _last(place: object) -> str:
    """The last two parts of a path or repository."""
    return "/".join(str(place).rstrip("/").split("/")[-2:])


def _story(document: Mapping[str, Any]) -> Iterator[str]:
    """What happened, in a few sentences."""
    checks = document["checks"]
    failed = [one["name"] for one in checks if one["status"] == "fail"]
    passed = [one["name"] for one in checks if one["status"] == "pass"]
    totals = document["totals"]
    if totals:
        before, after = totals["source"], totals["result"]
        yield (
            f"{counted(before['tensors'], 'tensor')} of {human(before['bytes'])} became "
            f"{counted(after['tensors'], 'tensor')} of {human(after['bytes'])}."
        )
    if failed:
        yield (
            f"Failed: {', '.join(failed)}. Nothing was handed over."
            if totals
            else (f"Failed: {', '.join(failed)}. The two are not the same.")
        )
    elif passed:
        yield f"Every check that could be made passed: {', '.join(passed)}."
    yield from (
        f"Not done: {one['name']} ({one['detail']})."
        for one in checks
        if one["status"] == "skipped"
    )
    dangerous = sum(len(one["dangerous"]) for one in document["pickle"])
    if document["pickle"]:
        said = f"{dangerous} dangerous imports" if dangerous else "no dangerous import"
        yield f"{counted(len(document['pickle']), 'pickle')} read without running any of it: {said}."


def _tiles(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    totals = document["totals"]
    if totals:
        yield human(totals["source"]["bytes"]), "before"
        yield human(totals["result"]["bytes"]), "after"
        yield f"{totals['result']['tensors']:,}", "tensors"
    passed = sum(one["status"] == "pass" for one in document["checks"])
    yield f"{passed} of {len(document['checks'])}", "checks passed"
    if document["seconds"] is not None:
        yield f"{document['seconds']:.1f} s", "time"
    yield human(document["peak_memory_bytes"]), "peak memory"


def _check(check: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": check["name"],
        "status": check["status"],
        "word": _WORDS[check["status"]],
        "detail": check["detail"],
        "figures": list(figures(check["measured"])),
        "limits": [f"{name} {value}" for name, value in check["limit"].items()],
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
            yield _rounding(lost)


def _sizes(totals: Mapping[str, Any]) -> Plot:
    codes = list(dict.fromkeys((*totals["source"]["by_dtype"], *totals["result"]["by_dtype"])))
    rows = []
    for side, label in (("source", "before"), ("result", "after")):
        parts = [
            Bar(amount["bytes"], codes.index(code) % 6, f"{code}: {human(amount['bytes'])}")
            for code, amount in totals[side]["by_dtype"].items()
        ]
        rows.append(Row(label, parts, human(totals[side]["bytes"])))
    said = ", ".join(
        f"{code} {human(totals['source']['by_dtype'].get(code, {}).get('bytes', 0))} to "
        f"{human(totals['result']['by_dtype'].get(code, {}).get('bytes', 0))}"
        for code in codes
    )
    return Plot("Sizes by dtype", bars(rows, "bytes before and after, by dtype"), said)


def _cosines(cosines: Sequence[float], least: float | None) -> Plot:
    gaps = [1 - one for one in cosines]
    limit = 1 - least if least is not None else None
    return Plot(
        "Logits by position",
        curve(gaps, "1 - cosine by position", limit=limit, across="position"),
        "1 - cosine between the logits of both sides, the worst input at each position: lower is better.",
    )


def _rounding(lost: Mapping[str, float]) -> Plot:
    rows = [
        Row(name, [Bar(share, 0, f"{share:.2%}")], f"{share:.2%}") for name, share in lost.items()
    ]
    return Plot(
        "What rounding takes of the update",
        bars(rows, "share of the update that rounding takes, by kind of module"),
        "A wider dtype keeps more of what the adapter learned.",
    )


def _tensors(report: Report) -> Iterator[TensorRow]:
    for shard in report.plan.shards if report.plan else ():
        for placed in shard.tensors:
            entry, spec = placed.entry, placed.entry.tensor.spec
            origin = ", ".join(entry.sources[:4]) + (" ..." if len(entry.sources) > 4 else "")
            yield TensorRow(
                placed.name,
                spec.dtype.code,
                " x ".join(map(str, spec.shape)) or "scalar",
                human(spec.nbytes),
                "" if origin == placed.name else origin,
                ", ".join(entry.steps),
            )


_ENVIRONMENT = Environment(
    loader=PackageLoader("hfconvert.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
