"""Plan and report for a terminal: the story first, then what stands out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from hfconvert.checks.result import Check
from hfconvert.keymap.fold import fold
from hfconvert.plan import Plan
from hfconvert.report.model import Report
from hfconvert.report.sizes import counted, human

_MARK = {"pass": "ok", "fail": "FAILED", "skipped": "skipped"}


def plan_text(plan: Plan) -> str:
    """What a plan says on a terminal."""
    return "\n".join(_plan_lines(plan))


def report_text(report: Report) -> str:
    """What a finished run says on a terminal."""
    return "\n".join(_report_lines(report))


def check_lines(checks: Iterable[Check]) -> Iterator[str]:
    """A line a check: what it measured, and what is wrong."""
    for check in checks:
        detail = f": {check.detail}" if check.detail else ""
        figures = ", ".join(_figure(key, value) for key, value in check.measured.items())
        yield f"  {check.name:8} {_MARK[check.status]}  {figures}{detail}"


def _plan_lines(plan: Plan) -> Iterator[str]:
    read = sum(source.size for source in plan.sources)
    yield f"source   {plan.path}  ({plan.format}, {counted(len(plan.sources), 'file')}, {human(read)})"
    for shard in plan.shards:
        tensors = counted(len(shard.tensors), "tensor")
        yield f"write    {shard.file}  {human(shard.size)}  {tensors}"
    for text in plan.texts:
        yield f"write    {text.file}  {human(len(text.content))}"
    yield from _map_lines(plan)
    yield from _left_out(plan)
    yield f"sizes    {', '.join(_by_dtype(plan))}"
    yield f"needs    {human(plan.output_bytes)} of disk, about {human(plan.peak_memory_bytes)} of memory"
    yield from _finding_lines(plan)


def _map_lines(plan: Plan) -> Iterator[str]:
    """Renamed tensors, folded over layers."""
    moved: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for shard in plan.shards:
        for placed in shard.tensors:
            if placed.entry.steps:
                pair = (placed.entry.sources[0], placed.name)
                moved.setdefault(placed.entry.steps, []).append(pair)
    for steps, pairs in moved.items():
        before, after = fold([old for old, _ in pairs]), fold([new for _, new in pairs])
        yield f"map      {counted(len(pairs), 'tensor')} by {', '.join(steps)}"
        if len(before) == len(after):
            yield from (
                f"           {old} -> {new}" for old, new in zip(before, after, strict=True)
            )


def _left_out(plan: Plan) -> Iterator[str]:
    rules: dict[str, list[str]] = {}
    for drop in plan.dropped:
        rules.setdefault(drop.rule, []).append(drop.name)
    for rule, names in rules.items():
        yield f"drop     {counted(len(names), 'tensor')} by {rule}: {', '.join(fold(names)[:5])}"
    for tie in plan.ties:
        yield f"tie      {tie.dropped} is {tie.kept}, written once"


def _by_dtype(plan: Plan) -> Iterator[str]:
    elements: Counter[str] = Counter()
    nbytes: Counter[str] = Counter()
    for shard in plan.shards:
        for placed in shard.tensors:
            spec = placed.entry.tensor.spec
            elements[spec.dtype.code] += spec.elements
            nbytes[spec.dtype.code] += spec.nbytes
    for code, count in elements.most_common():
        yield f"{code} {count:,} values = {human(nbytes[code])}"


def _report_lines(report: Report) -> Iterator[str]:
    plan = report.plan
    if plan is None:
        return
    if report.status == "up-to-date":
        yield f"up-to-date  {report.output}: same digest, same sizes; nothing was done"
        return
    read = sum(source.size for source in plan.sources)
    yield f"{report.status}  {plan.path} ({plan.format}, {human(read)}) -> {report.output}"
    for output in report.outputs:
        yield f"  {output.file}  {human(output.size)}  sha256 {output.sha256[:12]}"
    yield from (f"  {line}" for line in _left_out(plan))
    yield f"  sizes    {', '.join(_by_dtype(plan))}"
    yield from check_lines(report.checks)
    yield f"  took     {report.seconds:.1f} s, peak memory {human(report.peak_memory_bytes)}"


def _finding_lines(plan: Plan) -> Iterable[str]:
    for finding in plan.findings:
        subject = f"{finding.subject}: " if finding.subject else ""
        yield f"{finding.level:8} {subject}{finding.message}"


def _figure(name: str, value: object) -> str:
    """A figure of a check: a number, or counts by kind of module and dtype."""
    if not isinstance(value, dict):
        return f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
    counts = (
        f"{kind} {' '.join(f'{code} {count}' for code, count in by_code.items())}"
        for kind, by_code in value.items()
    )
    return f"{name} ({', '.join(counts)})"
