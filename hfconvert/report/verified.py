"""A verification for a terminal: what was compared, each check, then every difference that was described."""

from __future__ import annotations

from collections.abc import Iterator

from hfconvert.report.model import Report
from hfconvert.report.places import place_of
from hfconvert.report.sizes import human
from hfconvert.report.text import check_lines
from hfconvert.visible import one_line


def verified_text(report: Report) -> str:
    """What a finished verification says on a terminal."""
    return "\n".join(map(one_line, _lines(report)))


def _lines(report: Report) -> Iterator[str]:
    yield f"{report.status}  {place_of(report.candidate)} against {place_of(report.source)}"
    yield from check_lines(report.checks)
    for finding in report.findings:
        subject = f"{finding.subject}: " if finding.subject else ""
        yield f"  {finding.level:8} {subject}{finding.message}"
    if report.comment:
        yield f"  comment  {report.comment['url']}"
    yield f"  took     {report.seconds:.1f} s, peak memory {human(report.peak_memory_bytes)}"
