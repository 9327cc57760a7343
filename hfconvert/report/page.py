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
from hfconvert.report.pictures import Plot, plot_of_pairs, plots_of
from hfconvert.report.sizes import human
from hfconvert.report.story import story
from hfconvert.tensors.lazy import TensorSpec

MOST_TENSORS = 5000  # rows of the table; a browser searches more than that slowly
_TICKS = re.compile(r"`([^`]+)`")
_WORDS = {"pass": "passed", "fail": "failed", "skipped": "skipped"}


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
    plots = [plot_of_pairs(report.paired)] if report.paired else []
    return document_page(report_document(report), list(_tensors(report)), plots)


def document_page(
    document: Mapping[str, Any], tensors: Sequence[TensorRow] = (), plots: Sequence[Plot] = ()
) -> str:
    """The page of a report's JSON document, and of the tensors of the result where they are known.

    `plots` stand before those of the document.
    """
    return _ENVIRONMENT.get_template("page.html.jinja").render(
        title=_title(document),
        status=document["status"],
        story=list(story(document)),
        tiles=list(_tiles(document)),
        checks=[_check(one) for one in sorted(document["checks"], key=_is_whole)],
        plots=[*plots, *plots_of(document)],
        inputs=list(_inputs(document["checks"])),
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


def _inputs(checks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """What the models were asked, the worst first: text, cosine, position, residual, agreement."""
    for check in checks:
        for one in check["measured"].get("series", {}).get("by_input", ()):
            figures = (one.get(name) for name in ("cosine_min", "position", "residual", "top1"))
            yield (
                str(one.get("input", "")),
                *("none" if figure is None else f"{figure:.6g}" for figure in figures),
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
