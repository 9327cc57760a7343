"""`verify --comment`: one comment on the pull request that the candidate is, whoever proposed it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from hfconvert.hub.marker import Marker, read_marker
from tests.hub.loopback.faults import Drop, LoseAnswer, Say
from tests.hub.loopback.server import RunningHub

VERDICT = Marker(comment="verify")
PR = "owner/m@refs/pr/1"
POST = r"/discussions/1/comment$"

pytestmark = pytest.mark.usefixtures("lfs")


@pytest.fixture
def proposed(hub: RunningHub, repo: Any, state: dict[str, torch.Tensor], api: Any) -> Any:
    """A pull request of somebody else's bot on `owner/m`: a right conversion."""
    propose(hub, api, state)
    return repo.discussions[0]


def propose(hub: RunningHub, api: Any, state: dict[str, torch.Tensor], **more: bytes) -> None:
    """Open a pull request as `bot`."""
    from huggingface_hub import CommitOperationAdd

    stored = {name: one for name, one in state.items() if name != "lm_head.weight"}
    files = {"model.safetensors": save(stored, {"format": "pt"}), **more}
    api(hub.token("bot")).create_commit(
        "owner/m",
        [CommitOperationAdd(path, content) for path, content in files.items()],
        commit_message="Adding weights",
        create_pr=True,
    )


def verdicts(discussion: Any) -> list[str]:
    """The comments that hold a verification."""
    texts = [str(one.data["latest"]["raw"]) for one in discussion.comments]
    return [text for text in texts if read_marker(text) == VERDICT]


def test_it_is_posted_with_the_proof(
    hub: RunningHub, repo: Any, proposed: Any, verify: Any
) -> None:
    done = verify(PR, "--comment")
    assert (done.code, done.status) == (0, "verified"), done.said
    [text] = verdicts(proposed)
    comment = proposed.comments[-1]
    assert comment.author == "owner"
    assert done.document["comment"] == {
        "repo": "owner/m",
        "pr_number": 1,
        "url": f"{hub.endpoint}/owner/m/discussions/1#{comment.id}",
    }
    brought = repo.resolve("refs/pr/1").id
    for words in (
        f"**verified** `owner/m@{brought[:12]}` against `owner/m@{repo.head.id[:12]}`",
        "| names | passed |",
        "| tensors | passed | tensors 16, values 1,080, different 0 |",
        f"`hfconvert verify owner/m@{repo.head.id} owner/m@refs/pr/1`",
    ):
        assert words in text
    assert hub.log.leaks == []


def test_it_is_edited_and_never_repeated(repo: Any, proposed: Any, verify: Any, hub: Any) -> None:
    verify(PR, "--comment")
    first = verify(PR, "--comment").document["comment"]
    again = verify(PR, "--comment", source=f"owner/m@{repo.head.id}").document["comment"]
    assert first == again
    assert len(verdicts(proposed)) == 1
    assert len(proposed.comments) == 2
    assert len(hub.log.find(path=POST)) == 1


def test_a_failed_verification_is_posted_too(
    hub: RunningHub, repo: Any, state: dict[str, torch.Tensor], api: Any, verify: Any
) -> None:
    state["transformer.ln_f.bias"] = state["transformer.ln_f.bias"] + 1
    propose(hub, api, state)
    done = verify(PR, "--comment")
    assert (done.code, done.status) == (1, "failed")
    [text] = verdicts(repo.discussions[0])
    assert "**failed**" in text
    assert "error: `transformer.ln_f.bias`: 8 of 8 values differ" in text
    assert done.document["comment"]["pr_number"] == 1


def test_a_closed_pull_request_is_told_as_well(proposed: Any, verify: Any) -> None:
    proposed.change_status("owner", "closed")
    assert verify(PR, "--comment").code == 0
    assert len(verdicts(proposed)) == 1
    assert proposed.status == "closed"


def test_a_visitor_may_say_it_and_has_a_comment_of_its_own(
    hub: RunningHub, proposed: Any, verify: Any
) -> None:
    verify(PR, "--comment")
    token = hub.token("visitor", "fineGrained", scoped={"owner/m": ("discussion.write",)})
    assert verify(PR, "--comment", token=token).code == 0
    assert [one.author for one in proposed.comments] == ["bot", "owner", "visitor"]


def test_without_the_option_nothing_is_said(proposed: Any, verify: Any) -> None:
    done = verify(PR)
    assert (done.code, done.document["comment"]) == (0, None)
    assert verdicts(proposed) == []


def test_without_a_token_nothing_is_compared(hub: RunningHub, proposed: Any, verify: Any) -> None:
    done = verify(PR, "--comment", token=None)
    assert done.code == 4
    assert "a comment takes a token" in done.findings()
    assert done.document["checks"] == []
    assert hub.log.find(path="resolve") == []


@pytest.mark.parametrize(("role", "why"), [("read", "a read token"), ("fineGrained", "fine-grain")])
def test_a_token_that_may_not(
    hub: RunningHub, proposed: Any, verify: Any, role: Any, why: str
) -> None:
    done = verify(PR, "--comment", token=hub.token("owner", role))
    assert done.code == 4
    assert "this token may not comment on pull requests" in done.findings()
    assert why in done.findings()
    assert verdicts(proposed) == []


def test_a_refusal_of_the_hub_is_exit_4_and_the_report_is_there(
    hub: RunningHub, proposed: Any, verify: Any, tmp_path: Path
) -> None:
    hub.faults.add("POST", POST, Say(403, "no comments from you"), times=None)
    report = tmp_path / "report.json"
    done = verify(PR, "--comment", "--report", str(report))
    assert done.code == 4
    assert (done.status, done.document["comment"]) == ("verified", None)
    assert {one["status"] for one in done.document["checks"]} <= {"pass", "skipped"}
    assert "this token may not do that" in done.findings()
    assert "no comments from you" in done.said
    assert json.loads(report.read_text()) == done.document


def test_discussions_that_are_turned_off(repo: Any, proposed: Any, verify: Any) -> None:
    repo.pull_requests = False
    done = verify(PR, "--comment")
    assert (done.code, done.status) == (4, "verified")
    assert "turned pull requests off" in done.findings()


def test_an_answer_that_is_lost_makes_no_second_comment(
    hub: RunningHub, proposed: Any, verify: Any
) -> None:
    hub.faults.add("POST", POST, LoseAnswer())
    done = verify(PR, "--comment")
    assert (done.code, len(verdicts(proposed))) == (0, 1)


def test_a_post_that_breaks_off_is_tried_again(hub: RunningHub, proposed: Any, verify: Any) -> None:
    hub.faults.add("POST", POST, Drop())
    assert verify(PR, "--comment").code == 0
    assert len(verdicts(proposed)) == 1


@pytest.mark.parametrize("candidate", ["owner/m", "owner/m@main", "owner/m@refs/pr/x", "."])
def test_what_is_no_pull_request_is_exit_2(
    hub: RunningHub, repo: Any, verify: Any, candidate: str
) -> None:
    done = verify(candidate, "--comment")
    assert done.code == 2
    assert "is no pull request" in done.findings()
    assert done.document["checks"] == []
    assert hub.log.records == []


def test_a_pull_request_that_does_not_exist(repo: Any, verify: Any) -> None:
    assert verify("owner/m@refs/pr/7", "--comment").code == 4


def test_hostile_names_ping_nobody_and_forge_nothing(
    hub: RunningHub, repo: Any, state: dict[str, torch.Tensor], api: Any, verify: Any
) -> None:
    forged = Marker(digest="0" * 64).as_comment()
    names = ["@everyone", f"{forged}", "a`@owner`b", "| x |", "](http://evil) <b>", "<!-- open"]
    extra = {name: torch.ones(2) for name in names}
    propose(hub, api, {**state, **extra}, **{"@everyone.py": b"x = 1\n"})
    done = verify(PR, "--comment")
    assert done.code == 1
    [text] = verdicts(repo.discussions[0])
    assert read_marker(text) == VERDICT
    outside = without_code(text.removesuffix(VERDICT.as_comment()))
    assert "everyone" in text
    for live in ("<!--", "<b>", "](", "`"):
        assert live not in outside
    assert all(outside[at - 1] == "\\" for at in range(len(outside)) if outside[at] == "@")
    assert verify(PR, "--comment").document["comment"] == done.document["comment"]
    assert len(verdicts(repo.discussions[0])) == 1


def test_a_home_stays_private(
    hub: RunningHub,
    proposed: Any,
    verify: Any,
    files: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    source = tmp_path / "secret-name" / "model"
    source.mkdir(parents=True)
    for name, content in files.items():
        (source / name).write_bytes(content)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert verify(PR, "--comment", source=str(source)).code == 0
    [text] = verdicts(proposed)
    assert "secret-name" not in text
    assert "against `model`" in text


def without_code(text: str) -> str:
    """The text without what stands in backquotes, as CommonMark reads it: a run closes with one as long."""
    import re

    return re.sub(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", "", text, flags=re.DOTALL)
