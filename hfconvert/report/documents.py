"""The JSON documents of the contract: plan and report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hfconvert.errors import UserError
from hfconvert.findings import Finding
from hfconvert.machine import peak_memory_bytes, versions
from hfconvert.planning.plan import Plan
from hfconvert.planning.totals import Amount, Totals
from hfconvert.report.model import Opening, Report
from hfconvert.report.pickles import pickle_documents


def plan_document(plan: Plan) -> dict[str, Any]:
    """The document of `hfconvert plan --json`."""
    return {
        "source": source_document(plan),
        "outputs": [
            {"file": shard.file, "size": shard.size, "tensors": len(shard.tensors)}
            for shard in plan.shards
        ]
        + [{"file": file, "size": size, "tensors": 0} for file, size in _other_files(plan)],
        "tensors": [
            {
                "name": placed.name,
                "dtype": placed.entry.tensor.spec.dtype.code,
                "shape": list(placed.entry.tensor.spec.shape),
                "from": list(placed.entry.sources),
                "steps": list(placed.entry.steps),
                "file": shard.file,
            }
            for shard in plan.shards
            for placed in shard.tensors
        ],
        **_left_out(plan),
        "totals": totals_document(plan.totals),
        "peak_memory_bytes": plan.peak_memory_bytes,
        "disk_bytes": plan.output_bytes,
        "download_bytes": plan.origin.download_bytes if plan.origin else 0,
        "digest": plan.digest,
        "findings": findings_document(plan.findings),
    }


def report_document(report: Report) -> dict[str, Any]:
    """The document of `hfconvert run --json`, and what `--report` writes."""
    plan = report.plan
    return {
        "status": report.status,
        "source": source_document(plan) if plan else report.source,
        "candidate": report.candidate,
        "output": report.output,
        "digest": report.digest,
        "outputs": [
            {"file": output.file, "size": output.size, "sha256": output.sha256}
            for output in report.outputs
        ],
        "checks": [check.as_json() for check in report.checks],
        "findings": findings_document(report.findings),
        "totals": totals_document(plan.totals) if plan else None,
        **(_left_out(plan) if plan else {"dropped": [], "ties": []}),
        "opening": report.opening and _opening(report.opening),
        "pickle": pickle_documents(plan.pickles) if plan else list(report.pickles),
        "publish": report.publish,
        "comment": report.comment,
        "versions": dict(report.versions),
        "seconds": round(report.seconds, 3),
        "peak_memory_bytes": report.peak_memory_bytes,
    }


def failed_plan_document(error: UserError) -> dict[str, Any]:
    """The document of a plan that did not come about: its problems as findings."""
    return {
        "source": None,
        "outputs": [],
        "tensors": [],
        "dropped": [],
        "ties": [],
        "totals": None,
        "peak_memory_bytes": None,
        "disk_bytes": None,
        "download_bytes": None,
        "digest": None,
        "findings": [problem.finding().as_json() for problem in error.problems],
    }


def failed_report_document(error: UserError) -> dict[str, Any]:
    """The document of a run that stopped: its problems as findings."""
    return {
        "status": "failed",
        "source": None,
        "output": None,
        "candidate": None,
        "digest": None,
        "outputs": [],
        "checks": [],
        "findings": [problem.finding().as_json() for problem in error.problems],
        "totals": None,
        "dropped": [],
        "ties": [],
        "opening": None,
        "pickle": [],
        "publish": None,
        "comment": None,
        "versions": versions(),
        "seconds": None,
        "peak_memory_bytes": peak_memory_bytes(),
    }


def totals_document(totals: Totals) -> dict[str, Any]:
    """Tensors, parameters and bytes of source and result, how many met which fate, why bytes differ."""
    return {
        "source": {
            **_amounts(totals.source),
            "tensors": totals.source_tensors,
            "bytes": totals.source_bytes,
        },
        "result": _amounts(totals.result),
        "unchanged": totals.unchanged,
        "merged": totals.merged,
        "mapped": totals.mapped,
        "cast": totals.cast,
        "dropped": totals.dropped,
        "tied": totals.tied,
        "causes": dict(totals.causes),
    }


def source_document(plan: Plan) -> dict[str, Any]:
    """Where the weights came from."""
    return {
        "repo": plan.origin.repo if plan.origin else None,
        "commit": plan.origin.commit if plan.origin else None,
        "path": None if plan.origin else plan.path,
        "format": plan.format,
        "files": [{"file": source.name, "size": source.size} for source in plan.sources],
    }


def findings_document(findings: Iterable[Finding]) -> list[dict[str, str]]:
    """Findings in their order."""
    return [finding.as_json() for finding in findings]


def _other_files(plan: Plan) -> Iterator[tuple[str, int]]:
    """Name and size of every file that holds no weights."""
    yield from ((text.file, len(text.content)) for text in plan.texts)
    yield from ((one.source.name, len(one.content)) for one in plan.rewritten)
    yield from ((copy.name, copy.size) for copy in plan.copies)


def _left_out(plan: Plan) -> dict[str, Any]:
    return {
        "dropped": [{"name": drop.name, "rule": drop.rule} for drop in plan.dropped],
        "ties": [{"kept": tie.kept, "dropped": tie.dropped} for tie in plan.ties],
    }


def _amounts(amounts: Mapping[str, Amount]) -> dict[str, Any]:
    return {
        "tensors": sum(amount.tensors for amount in amounts.values()),
        "parameters": sum(amount.parameters for amount in amounts.values()),
        "bytes": sum(amount.nbytes for amount in amounts.values()),
        "by_dtype": {
            code: {
                "tensors": amount.tensors,
                "parameters": amount.parameters,
                "bytes": amount.nbytes,
            }
            for code, amount in amounts.items()
        },
    }


def _opening(opening: Opening) -> dict[str, Any]:
    return {
        "before_seconds": round(opening.before, 6),
        "after_seconds": round(opening.after, 6),
        "measured": "from opening the first file to its first tensor, read by hfconvert, cached",
    }
