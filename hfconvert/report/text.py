"""Plan and report for a terminal: the story first, then what stands out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hfconvert.checks.result import Check
from hfconvert.findings import Finding
from hfconvert.keymap.fold import fold
from hfconvert.planning.plan import Plan
from hfconvert.planning.totals import Amount, Totals
from hfconvert.report.figures import figures
from hfconvert.report.maps import map_lines
from hfconvert.report.model import Report
from hfconvert.report.sizes import counted, human, signed
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.visible import one_line

_MOST_LINES = 8
_MARK = {"pass": "ok", "fail": "FAILED", "skipped": "skipped"}


def plan_text(plan: Plan) -> str:
    """What a plan says on a terminal."""
    return "\n".join(map(one_line, _plan_lines(plan)))


def report_text(report: Report) -> str:
    """What a finished run says on a terminal."""
    return "\n".join(map(one_line, _report_lines(report)))


def check_lines(checks: Iterable[Check]) -> Iterator[str]:
    """A line a check: what it measured, and what is wrong."""
    for check in checks:
        measured = ", ".join(figures(check.measured))
        said = ": ".join(part for part in (measured, check.detail) if part)
        yield f"  {check.name:8} {_MARK[check.status]}  {said}".rstrip()


def _plan_lines(plan: Plan) -> Iterator[str]:
    read = sum(source.size for source in plan.sources)
    yield f"source   {plan.label}  ({plan.format}, {counted(len(plan.sources), 'file')}, {human(read)})"
    for shard in plan.shards:
        tensors = counted(len(shard.tensors), "tensor")
        yield f"write    {shard.file}  {human(shard.size)}  {tensors}"
    for text in plan.texts:
        yield f"write    {text.file}  {human(len(text.content))}"
    yield from map_lines(
        (placed.name, placed.entry) for shard in plan.shards for placed in shard.tensors
    )
    yield from _left_out(plan)
    yield from _cast_lines(plan)
    yield from _size_lines(plan.totals)
    yield f"needs    {human(plan.output_bytes)} of disk, about {human(plan.peak_memory_bytes)} of memory"
    yield from _finding_lines(plan.findings, ("error", "warning", "info"))


def _left_out(plan: Plan) -> Iterator[str]:
    """What is not written, and under which rule or name; what a `tie` step dropped is a tie."""
    rules: dict[str, list[str]] = {}
    for drop in plan.dropped:
        rules.setdefault(drop.rule, []).append(drop.name)
    for rule, names in rules.items():
        if not rule.startswith("tie: "):
            yield f"drop     {counted(len(names), 'tensor')} by {rule}: {_some(fold(names))}"
    ties = fold(f"{tie.dropped} is {tie.kept}, written once" for tie in plan.ties)
    yield from (f"tie      {line}" for line in ties[:_MOST_LINES])
    if len(ties) > _MOST_LINES:
        yield f"tie      and {len(ties) - _MOST_LINES} more"


def _cast_lines(plan: Plan) -> Iterator[str]:
    """Tensors that were cast, by both dtypes, folded over layers."""
    casts: dict[tuple[str, str], list[str]] = {}
    for shard in plan.shards:
        for placed in shard.tensors:
            pair = (plan.before[placed.name], placed.entry.tensor.spec.dtype.code)
            if pair[0] != pair[1]:
                casts.setdefault(pair, []).append(placed.name)
    for (before, after), names in casts.items():
        listed = _some(fold(sorted(names)))
        yield f"cast     {counted(len(names), 'tensor')} {before} -> {after}: {listed}"


def _size_lines(totals: Totals) -> Iterator[str]:
    """The formula of the sizes, parameters times bytes, on both sides, and what lies between them."""
    yield f"before   {', '.join(_formulas(totals.source))}"
    yield f"after    {', '.join(_formulas(totals.result))}"
    fates = {
        "unchanged": totals.unchanged,
        "merged": totals.merged,
        "mapped": totals.mapped,
        "cast": totals.cast,
        "dropped": totals.dropped,
        "tied": totals.tied,
    }
    counts = ", ".join(f"{count:,} {fate}" for fate, count in fates.items() if count)
    yield f"count    {totals.source_tensors:,} -> {totals.result_tensors:,} tensors: {counts}"
    if totals.causes:
        causes = ", ".join(f"{cause} {signed(size)}" for cause, size in totals.causes.items())
        yield f"bytes    {human(totals.source_bytes)} -> {human(totals.result_bytes)}: {causes}"


def _formulas(amounts: Mapping[str, Amount]) -> Iterator[str]:
    for code, amount in amounts.items():
        width = f" x {BY_CODE[code].bits / 8:g} bytes" if code in BY_CODE else ""
        yield f"{amount.parameters:,} {code}{width} = {human(amount.nbytes)}"


def _report_lines(report: Report) -> Iterator[str]:
    plan = report.plan
    if plan is None:
        return
    if report.publish is not None and report.status in {"up-to-date", "skipped"}:
        yield f"{report.status}  {published_line(report.publish)}"
        yield from (f"  {one.message}" for one in report.findings if one.check == "publish")
        return
    if report.status == "up-to-date":
        yield f"up-to-date  {report.output}: same digest, same sizes; nothing was done"
        return
    read = sum(source.size for source in plan.sources)
    where = _where(report)
    to = f" -> {where}" if where else ""
    if report.status == "failed":
        to = ": no output was made"
    yield f"{report.status}  {plan.label} ({plan.format}, {human(read)}){to}"
    yield from (f"  {line}" for line in _file_lines(report))
    yield from (f"  {line}" for line in _left_out(plan))
    yield from (f"  {line}" for line in _cast_lines(plan))
    yield from (f"  {line}" for line in _size_lines(plan.totals))
    yield from check_lines(report.checks)
    if report.opening:
        before, after = (f"{1000 * seconds:.1f} ms" for seconds in report.opening)
        yield f"  opens    in {after}, was {before} (to the first tensor, read by hfconvert)"
    yield f"  took     {report.seconds:.1f} s, peak memory {human(report.peak_memory_bytes)}"
    yield from (f"  {line}" for line in _finding_lines(report.findings, ("error", "warning")))


def published_line(publish: Mapping[str, Any]) -> str:
    """Where a result was published: the address of the pull request, else repository and commit."""
    return str(publish["pr_url"] or f"{publish['repo']} at commit {publish['commit']}")


def _where(report: Report) -> str:
    published = published_line(report.publish) if report.publish else None
    return " and ".join(one for one in (report.output, published) if one)


def _file_lines(report: Report) -> Iterator[str]:
    """The weights with their hashes, the middle of a long list left out; other files as a sum."""
    weights = [one for one in report.outputs if one.file.endswith(".safetensors")]
    lines = [f"{one.file}  {human(one.size)}  sha256 {one.sha256[:12]}" for one in weights]
    if len(lines) > _MOST_LINES:
        yield from lines[:3]
        yield f"... {len(lines) - 4} more of {human(sum(one.size for one in weights))} in all"
        yield lines[-1]
    else:
        yield from lines
    others = [one for one in report.outputs if one not in weights]
    if others:
        size = human(sum(one.size for one in others))
        yield f"and {counted(len(others), 'other file')}, {size}: {_some(one.file for one in others)}"


def _some(names: Iterable[str], limit: int = 4) -> str:
    """The first few of a list, and how many more there are."""
    known = list(names)
    rest = len(known) - limit
    return ", ".join(known[:limit]) + (f" and {rest} more" if rest > 0 else "")


def _finding_lines(findings: Iterable[Finding], levels: Sequence[str]) -> Iterator[str]:
    for finding in findings:
        told = finding.check == "ties" and finding.level == "info"  # by the lines of the ties
        if finding.level in levels and not told:
            subject = f"{finding.subject}: " if finding.subject else ""
            yield f"{finding.level:8} {subject}{finding.message}"
            if finding.hint and finding.level != "info":
                yield from (f"         {line}" for line in finding.hint.split("\n"))
