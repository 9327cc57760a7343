"""The report as Markdown, for a pull request or the summary of a workflow: made from its JSON document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hfconvert.keymap.fold import fold
from hfconvert.report.figures import figures
from hfconvert.report.places import place_of
from hfconvert.report.sizes import counted, human, signed
from hfconvert.tensors.dtype import BY_CODE

_MOST_LINES = 20  # of one list; a summary of GitHub holds 1 MiB, a description 65536 characters
_MARKS = {"pass": "passed", "fail": "**failed**", "skipped": "skipped"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~@])")


def summary(document: Mapping[str, Any]) -> str:
    """The document of `run` or `verify` as Markdown. Names and messages in it can format nothing."""
    parts = (
        _headline(document),
        _files(document["outputs"]),
        _sizes(document.get("totals")),
        _left_out(document),
        _checks(document["checks"]),
        _findings(document["findings"]),
        _pickles(document["pickle"]),
        _closing(document),
    )
    return "\n\n".join(part for lines in parts if (part := "\n".join(lines))) + "\n"


def plain(text: object) -> str:
    """Text that stands for itself: no markup, no mention, no line of its own."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def code(text: object) -> str:
    """Text in backquotes, whatever backquotes and bars it holds."""
    flat = " ".join(str(text).split()).replace("|", "\\|") or " "
    longest = max((len(run) for run in re.findall("`+", flat)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {flat} {fence}" if longest else f"`{flat}`"


def _headline(document: Mapping[str, Any]) -> Iterator[str]:
    source = document.get("source") or {}
    size = sum(file["size"] for file in source.get("files", ()))
    where, what = place_of(source), place_of(document.get("candidate"))
    made = f" {code(what)} against" if what else ""
    said = f" {code(where)} ({plain(source.get('format'))}, {human(size)})" if where else ""
    yield f"**{plain(document['status'])}**{made}{said}"


def _files(outputs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = [(code(one["file"]), human(one["size"]), code(one["sha256"])) for one in outputs]
    yield from _table(("file", "size", "sha256"), rows)


def _sizes(totals: Mapping[str, Any] | None) -> Iterator[str]:
    """Parameters times bytes, on both sides."""
    if not totals:
        return
    rows = [
        (side, plain(kind), f"{amount['parameters']:,}", _width(kind), human(amount["bytes"]))
        for side in ("source", "result")
        for kind, amount in totals[side]["by_dtype"].items()
    ]
    yield from _table(("", "dtype", "parameters", "bytes each", "size"), rows)
    causes = ", ".join(f"{plain(cause)} {signed(size)}" for cause, size in totals["causes"].items())
    fates = ("unchanged", "mapped", "cast", "dropped", "tied")
    counts = ", ".join(f"{totals[fate]:,} {fate}" for fate in fates if totals[fate])
    before, after = totals["source"], totals["result"]
    yield ""
    yield f"{before['tensors']:,} tensors became {after['tensors']:,}: {counts}."
    if causes:
        yield f"{human(before['bytes'])} became {human(after['bytes'])}: {causes}."


def _width(kind: str) -> str:
    return f"{BY_CODE[kind].bits / 8:g}" if kind in BY_CODE else ""


def _left_out(document: Mapping[str, Any]) -> Iterator[str]:
    rules: dict[str, list[str]] = {}
    for drop in document.get("dropped", ()):
        rules.setdefault(drop["rule"], []).append(drop["name"])
    lines = [
        f"{counted(len(names), 'tensor')} dropped by {code(rule)}: {_names(names)}"
        for rule, names in rules.items()
        if not rule.startswith("tie: ")
    ]
    ties = [f"{tie['dropped']} is {tie['kept']}" for tie in document.get("ties", ())]
    lines += [f"written once: {code(line)}" for line in fold(ties)]
    yield from _list(lines)


def _checks(checks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    rows = [
        (
            plain(check["name"]),
            _MARKS[check["status"]],
            plain(", ".join(figures(check["measured"]))),
            plain(check["detail"]),
        )
        for check in checks
    ]
    yield from _table(("check", "outcome", "measured", ""), rows)


def _findings(findings: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Errors and warnings; what is only told stands in the JSON document."""
    lines = []
    for finding in findings:
        if finding["level"] != "info":
            subject = f"{code(finding['subject'])}: " if finding["subject"] else ""
            hint = f" ({plain(finding['hint'])})" if finding["hint"] else ""
            lines.append(f"{finding['level']}: {subject}{plain(finding['message'])}{hint}")
    yield from _list(lines)


def _pickles(pickles: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What pickles ask for; those that ask for the same, which shards do, in one line."""
    alike: dict[tuple[str, ...], list[str]] = {}
    dangerous: set[str] = set()
    for one in pickles:
        alike.setdefault(tuple(sorted(_imports(one["imports"]))), []).append(one["file"])
        dangerous |= _imports(one["dangerous"])
    lines = [f"{_names(files)}: {_names(names) or 'nothing'}" for names, files in alike.items()]
    if dangerous:
        lines.append(f"**dangerous** among them: {_names(sorted(dangerous))}")
    if lines:
        yield "No pickle was executed. What they ask for:"
        yield ""
        yield from _list(lines)


def _imports(items: Iterable[Mapping[str, str]]) -> set[str]:
    return {f"{item['module']}.{item['name']}" for item in items}


def _closing(document: Mapping[str, Any]) -> Iterator[str]:
    seconds = document.get("seconds")
    if seconds is not None:
        yield f"Took {seconds:.1f} s, peak memory {human(document['peak_memory_bytes'])}."
    opening = document.get("opening")
    if opening:
        before, after = (
            f"{1000 * opening[f'{when}_seconds']:.1f} ms" for when in ("before", "after")
        )
        yield f"Opens in {after}, was {before} (to the first tensor, read by hfconvert)."
    if document["versions"]:
        used = (f"{name} {number}" for name, number in document["versions"].items())
        yield f"With {plain(', '.join(used))}."
    if document.get("digest"):
        yield f"Digest {code(document['digest'])}."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table, cut in its middle where it is long; nothing where it has no rows."""
    if not rows:
        return
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    shown = [f"| {' | '.join(row)} |" for row in rows]
    if len(shown) > _MOST_LINES:
        left = len(shown) - _MOST_LINES
        gap = f"| ... {left} more |{' |' * (len(head) - 1)}"
        shown = [*shown[: _MOST_LINES - 1], gap, shown[-1]]
    yield from shown


def _list(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"- {line}" for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        yield f"- and {len(lines) - _MOST_LINES} more"


def _names(names: Iterable[str], limit: int = 6) -> str:
    lines = fold(names)
    rest = f" and {len(lines) - limit} more" if len(lines) > limit else ""
    return ", ".join(code(line) for line in lines[:limit]) + rest
