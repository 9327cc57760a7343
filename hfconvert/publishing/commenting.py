"""`verify --comment`: the report as one comment on the pull request that the candidate is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hfconvert.errors import UserError
from hfconvert.hub.client import connect
from hfconvert.hub.talk import say
from hfconvert.hub.verdict import VERDICT, pull_request_of, speak_in, verdict
from hfconvert.recipe import parse_location
from hfconvert.report.documents import report_document
from hfconvert.report.model import Report


def verify_and_comment(
    candidate: str, verify: Callable[[], Report]
) -> tuple[Report, UserError | None]:
    """Verify, then say so where the candidate is; the report, and why it could not be said there, if so.

    UserError (exit 2) where the candidate is no pull request, (exit 4) where the token surely may not
    comment: before anything is compared.
    """
    pull_request = pull_request_of(parse_location(candidate, subject="CANDIDATE"))
    place = speak_in(connect(), pull_request)
    report = verify()
    try:
        url = say(place, verdict(report_document(report), pull_request), VERDICT)
    except UserError as refused:
        said = tuple(problem.finding() for problem in refused.problems)
        return replace(report, findings=(*report.findings, *said)), refused
    comment = {"repo": pull_request.repo, "pr_number": pull_request.num, "url": url}
    return replace(report, comment=comment), None
