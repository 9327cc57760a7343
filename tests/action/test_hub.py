"""The action and the Hub: runs of act beside a Hub in a network of their own, ours and a stranger's."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.action import with_hub
from tests.action.harness import Asked, Ran, cut_off, run_act, run_once
from tests.action.with_hub import READS, TRUSTING, WRITES

REPOS = ("input", "job", "reading", "dry", "distrusting", "trusting", "stranger")
STOLEN = "hf_thisisnotthetokenofthestep"

STEPS = """\
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: convert
        uses: owner/hfconvert@v1
        with: {install: none, fail-on: never, recipe: recipe.yaml, source: owner/REPO, MORE}
"""
OURS = {
    "input": 'token: "${{ secrets.writes }}"',
    "job": "",
    "reading": 'token: "${{ secrets.reads }}"',
    "dry": 'token: "${{ secrets.reads }}", dry-run: true',
    "trusting": "oidc-resource: owner/trusting",
    "distrusting": "oidc-resource: owner/distrusting",
}
JOB_ENV = {"input": "${{ secrets.stolen }}", "job": "${{ secrets.writes }}"}


def workflow(event: str, jobs: dict[str, str], env: dict[str, str]) -> str:
    """A job for each repository; all of them convert it and propose the result to it."""
    text = f"on: {event}\npermissions: {{}}\njobs:\n"
    for repo, more in jobs.items():
        text += f"  {repo}:\n"
        text += f'    env: {{HF_TOKEN: "{env[repo]}"}}\n' if repo in env else ""
        text += STEPS.replace("REPO", repo).replace("MORE", more)
    return text


def run(folder: Path, asked: Asked) -> Ran:
    """The run beside a Hub; `extra` is what the Hub saw."""
    for repo in REPOS:
        place = folder / "beside" / "repos" / "owner" / repo
        place.mkdir(parents=True)
        buffer = io.BytesIO()
        torch.save({"w": torch.ones(4, 4), "b": torch.zeros(3)}, buffer)
        (place / "pytorch_model.bin").write_bytes(buffer.getvalue())
        (place / "config.json").write_text('{"torch_dtype": "float32"}')
        (place / "README.md").write_text("# A model\n")
    beside = (sys.executable, str(with_hub.__file__), str(folder / "beside"))
    ran = run_act(asked, folder, (*cut_off(), *beside))
    return replace(ran, extra=json.loads((folder / "beside" / "hub.json").read_text()))


def asked(**more: Any) -> Asked:
    again = "      - id: again\n        uses: owner/hfconvert@v1\n"
    again += (
        "        with: {install: none, source: owner/input, publish: pull_request, "
        'token: "${{ secrets.writes }}"}\n'
    )
    text = workflow("push", OURS, JOB_ENV)
    first, rest = text.split("  job:\n")
    return Asked(
        workflow=f"{first}{again}  job:\n{rest}",
        files={"recipe.yaml": "version: 1\npublish: {how: pull_request}\n"},
        secrets={"writes": WRITES, "reads": READS, "stolen": STOLEN},
        env={
            "HF_ENDPOINT": "{hub}",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "ACTIONS_ID_TOKEN_REQUEST_URL": "{github}/token?version=2",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "x",
        },
        **more,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Pushes to the repository itself."""
    return run_once(lambda folder: run(folder, asked()), "ours", tmp_path_factory)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The pull request of a fork, in a job that somebody gave every token there is."""
    more = f'token: "${{{{ secrets.writes }}}}", allow-remote-code: true, oidc-resource: {TRUSTING}'
    env = {"stranger": "${{ secrets.writes }}"}
    text = workflow("pull_request_target", {"stranger": more}, env)
    sides = {"head": {"repo": {"full_name": "eve/m"}}, "base": {"repo": {"full_name": "owner/m"}}}
    payload = {"action": "opened", "number": 1, "pull_request": sides}
    made = replace(asked(payload=payload), event="pull_request_target", workflow=text)
    return run_once(lambda folder: run(folder, made), "stranger", tmp_path_factory)


def tokens_at(ran: Ran, repo: str) -> set[str | None]:
    """The tokens that came with requests about a repository."""
    return {token for _, path, token, _ in ran.extra["requests"] if f"owner/{repo}" in path}


@pytest.mark.parametrize("repo", ["input", "job"])
def test_a_pull_request_with_the_token_of_the_input_else_of_the_job(ran: Ran, repo: str) -> None:
    outputs = ran.outputs(repo, "convert")
    assert outputs["status"] == "converted", ran.said(repo, "convert")
    assert outputs["pr-url"].endswith(f"/owner/{repo}/discussions/1")
    assert (outputs["pr-number"], outputs["revision"]) == ("1", "refs/pr/1")
    assert json.loads(outputs["files"]) == ["model.safetensors", "README.md", "config.json"]
    assert ran.extra["proposed"][f"owner/{repo}"] == 1
    assert tokens_at(ran, repo) == {WRITES}


def test_the_second_use_finds_the_pull_request_of_the_first(ran: Ran) -> None:
    outputs = ran.outputs("input", "again")
    assert (outputs["status"], outputs["pr-number"]) == ("up-to-date", "1")
    (said,) = ran.said("input", "again")
    assert (said.kind, "proposed there already" in said.message) == ("notice", True)


@pytest.mark.parametrize("repo", ["reading", "dry"])
def test_a_token_without_the_right_is_found_before_any_work(ran: Ran, repo: str) -> None:
    assert ran.outputs(repo, "convert")["status"] == "failed"
    (said,) = ran.said(repo, "convert")
    assert "this token may not open pull requests (it is a read token)" in said.message
    assert ran.extra["proposed"][f"owner/{repo}"] == 0
    assert ran.log(repo, "convert").count("model.safetensors") == 0


def test_a_trusted_publisher_needs_no_token(ran: Ran) -> None:
    outputs = ran.outputs("trusting", "convert")
    assert (outputs["status"], outputs["pr-number"]) == ("converted", "1"), ran.text
    issued = ran.extra["tokens"][2:]
    assert len(issued) == 1
    assert tokens_at(ran, "trusting") == {None, issued[0]}
    assert tokens_at(ran, "distrusting") == {None}


def test_a_publisher_that_is_not_trusted_is_told_what_to_register(ran: Ran) -> None:
    assert ran.outputs("distrusting", "convert")["status"] == "failed"
    (said,) = ran.said("distrusting", "convert")
    assert "gives this workflow no token for owner/distrusting (400, invalid_grant" in said.message
    assert "exactly this GitHub repository, branch and workflow" in said.message


def test_no_log_and_no_request_shows_a_token_that_is_not_its_own(ran: Ran) -> None:
    assert ran.extra["crashes"] == []
    assert not [one for one in (WRITES, READS, STOLEN, *ran.extra["tokens"]) if one in ran.text]
    assert STOLEN not in {token for _, _, token, _ in ran.extra["requests"]}


def test_a_fork_publishes_nothing_and_no_token_is_used(stranger: Ran) -> None:
    outputs = stranger.outputs("stranger", "convert")
    assert (outputs["status"], outputs["verified"]) == ("converted", "true"), stranger.text
    assert outputs["pr-url"] == outputs["revision"] == ""
    assert {token for _, _, token, _ in stranger.extra["requests"]} == {None}
    assert {method for method, *_ in stranger.extra["requests"]} == {"GET", "HEAD"}
    assert (stranger.extra["identities"], stranger.extra["proposed"]["owner/stranger"]) == (0, 0)


def test_a_fork_is_told_why(stranger: Ran) -> None:
    said = stranger.said("stranger", "convert")
    assert [one.kind for one in said] == ["notice", "notice"]
    ignored = "token, oidc-resource, allow-remote-code ignored"
    assert said[0].message == f"{ignored}: the pull request comes from eve/m"
    assert "nothing is published: the pull request comes from eve/m" in said[1].message
