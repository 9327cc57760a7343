"""The JSON documents of the contract: plan and report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hfconvert.errors import UserError
from hfconvert.findings import Finding
from hfconvert.machine import peak_memory_bytes, versions
from hfconvert.plan import Plan
from hfconvert.readers.contents import PickleFacts
from hfconvert.report.model import Report


def plan_document(plan: Plan) -> dict[str, Any]:
    """The document of `hfconvert plan --json`."""
    return {
        "source": source_document(plan),
        "outputs": [
            {"file": shard.file, "size": shard.size, "tensors": len(shard.tensors)}
            for shard in plan.shards
        ]
        + [{"file": text.file, "size": len(text.content), "tensors": 0} for text in plan.texts],
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
        "dropped": [{"name": drop.name, "rule": drop.rule} for drop in plan.dropped],
        "ties": [{"kept": tie.kept, "dropped": tie.dropped} for tie in plan.ties],
        "peak_memory_bytes": plan.peak_memory_bytes,
        "disk_bytes": plan.output_bytes,
        "download_bytes": 0,
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
        "pickle": pickle_documents(plan.pickles) if plan else list(report.pickles),
        "publish": report.publish,
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
        "digest": None,
        "outputs": [],
        "checks": [],
        "findings": [problem.finding().as_json() for problem in error.problems],
        "pickle": [],
        "publish": None,
        "versions": versions(),
        "seconds": None,
        "peak_memory_bytes": peak_memory_bytes(),
    }


def source_document(plan: Plan) -> dict[str, Any]:
    """Where the weights came from."""
    return {
        "repo": None,
        "commit": None,
        "path": plan.path,
        "format": plan.format,
        "files": [{"file": source.name, "size": source.size} for source in plan.sources],
    }


def pickle_documents(pickles: Iterable[tuple[str, PickleFacts]]) -> list[dict[str, Any]]:
    """What the pickle of each file asks for."""
    return [
        {
            "file": file,
            "imports": [{"module": item.module, "name": item.name} for item in facts.imports],
            "stubbed": list(facts.stubbed),
            "dangerous": [{"module": item.module, "name": item.name} for item in facts.dangerous],
        }
        for file, facts in pickles
    ]


def findings_document(findings: Iterable[Finding]) -> list[dict[str, str]]:
    """Findings in their order."""
    return [finding.as_json() for finding in findings]
