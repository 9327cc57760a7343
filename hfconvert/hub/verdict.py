"""The comment that brings a verification to the pull request that it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hfconvert.errors import UserError, recipe_problem
from hfconvert.hub.about import hub_problem
from hfconvert.hub.account import who
from hfconvert.hub.client import Client
from hfconvert.hub.marker import Marker
from hfconvert.hub.refusals import SIGN_IN
from hfconvert.hub.talk import Discussion
from hfconvert.recipe import Location
from hfconvert.report.summary import code, summary

VERDICT = Marker(comment="verify")
MOST = 60_000  # characters; the Hub takes 65536
_REVISION = re.compile(r"refs/pr/([1-9][0-9]*)\Z")


class PullRequest(NamedTuple):
    """A pull request: its repository and number."""

    repo: str
    num: int


def pull_request_of(candidate: Location) -> PullRequest:
    """The pull request that a candidate is. UserError (exit 2) where it is none."""
    found = _REVISION.match(candidate.revision or "")
    if candidate.repo is None or found is None:
        raise UserError(
            recipe_problem(
                f"the candidate {candidate} is no pull request: --comment has nowhere to post",
                why="a pull request is named by its revision",
                do="write org/model@refs/pr/N, or leave --comment out",
                subject="--comment",
            )
        )
    return PullRequest(candidate.repo, int(found[1]))


def speak_in(client: Client, pull_request: PullRequest) -> Discussion:
    """The pull request, for the account of the token. UserError (exit 4) where that surely may not speak."""
    about = client.about(pull_request.repo, "propose")
    if not client.signed_in:
        problem = hub_problem(
            about,
            "a comment takes a token",
            why="none was found: HF_TOKEN is not set, and nobody is logged in",
            do=f"make one at {about.endpoint}/settings/tokens, then {SIGN_IN}; or leave --comment out",
        )
        raise UserError(problem)
    account = who(client)
    lacks = account.lacks_to_propose(pull_request.repo)
    if lacks:
        problem = hub_problem(
            about,
            "this token may not comment on pull requests",
            why=lacks,
            do=f"make a write token, or a fine-grained one with discussion.write for {pull_request.repo}, at "
            f"{about.endpoint}/settings/tokens; then {SIGN_IN}",
        )
        raise UserError(problem)
    return Discussion(client, pull_request.repo, pull_request.num, account.name)


def verdict(document: Mapping[str, Any], pull_request: PullRequest) -> str:
    """The text of the comment, without its mark: made from the document of `verify`.

    Names and messages in it can format nothing, call nobody, and say nothing in our name; a path in the
    home of whoever ran it does not get out.
    """
    shown = _without_home(document)
    source = shown.get("source") or {}
    if source.get("path"):
        shown = {**shown, "source": {**source, "path": Path(source["path"]).name or "."}}
    report = summary(shown)
    if len(report) > MOST:
        report = report[: report.rindex("\n", 0, MOST)] + "\n\nThe rest is in the report itself.\n"
    return f"## Compared with its source\n\n{report}\n{_repeat(source, pull_request)}"


def _repeat(source: Mapping[str, Any], pull_request: PullRequest) -> str:
    theirs = f"{pull_request.repo}@refs/pr/{pull_request.num}"
    ours = f"{source['repo']}@{source['commit']}" if source.get("repo") else "./the-source"
    return f"To repeat it: {code(f'hfconvert verify {ours} {theirs}')}"


def _without_home(value: Any) -> Any:
    home = str(Path.home())
    if isinstance(value, str):
        return value.replace(home, "~") if len(home) > 1 else value
    if isinstance(value, Mapping):
        return {_without_home(key): _without_home(one) for key, one in value.items()}
    return [_without_home(one) for one in value] if isinstance(value, (list, tuple)) else value
