"""Whatever goes wrong on the way: one pull request at the end, or none and a reason."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from huggingface_hub import CommitOperationAdd, HfApi

from hfconvert.hub import uploads
from tests.hub.loopback.faults import Call, Drop, LoseAnswer, Say
from tests.hub.loopback.server import RunningHub

Api = Callable[..., HfApi]


def fine(done: Any, repo: Any, number: int = 1) -> None:
    """One pull request, complete, with its comment."""
    assert (done.code, done.publish["pr_number"]) == (0, number), done.findings()
    opened = repo.discussions[number - 1]
    assert opened.status == "open"
    assert len(opened.comments) == 2
    assert "model.safetensors" in repo.resolve(f"refs/pr/{number}").files
    assert sum(one.status == "open" for one in repo.discussions) == 1


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(
    "fault",
    [
        Say(412, "A commit has happened since."),
        Say(500, "oops"),
        Say(503, "busy"),
        Say(409, "conflict"),
        Say(429, "too many", headers={"Retry-After": "2"}),
        Say(429, "too many", headers={"RateLimit": '"api";r=0;t=55'}),
        Say(429, "too many"),
        Drop(),
        LoseAnswer(),
    ],
    ids=("412", "500", "503", "409", "retry-after", "rate-limit", "429", "drop", "lost"),
)
@pytest.mark.usefixtures("lfs")
def test_a_commit_that_fails_is_tried_again(
    hub: RunningHub, repo: Any, run: Any, waits: list[float], fault: Any, times: int
) -> None:
    hub.faults.add("POST", "/commit/", fault, times=times)
    done = run()
    fine(done, repo)
    assert done.status == "converted"
    if isinstance(fault, LoseAnswer):
        assert len(hub.log.find("POST", "/commit/")) == 1
    asked = {"Retry-After": 2, "RateLimit": 55}
    if isinstance(fault, Say) and fault.headers:
        assert max(waits) >= asked[next(iter(fault.headers))]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Say(412, "A commit has happened since."), "somebody committed"),
        (Say(500, "oops"), "the Hub has trouble"),
        (Say(429, "slow down", headers={"Retry-After": "2"}), "too many requests"),
        (Say(429, "slow down", headers={"Retry-After": "9999"}), "run again in 9999 seconds"),
        (Say(403, "no"), "this token may not do that"),
        (Say(403, "Discussions are disabled for this repo"), "turned pull requests off"),
        (Say(403, "Private repository storage limit reached"), "no room for this"),
        (Say(400, "bad request"), "the Hub refused this"),
        (Say(401, "bad token"), "does not accept the token"),
        (Drop(), "cannot be reached, or broke off"),
    ],
    ids=("412", "500", "429", "long", "403", "off", "full", "400", "401", "drop"),
)
@pytest.mark.usefixtures("lfs")
def test_a_commit_that_fails_for_good(
    hub: RunningHub, repo: Any, run: Any, waits: list[float], fault: Any, words: str
) -> None:
    hub.faults.add("POST", "/commit/", fault, times=None)
    done = run()
    assert done.code == 4
    assert words in done.findings()
    assert repo.discussions == []
    assert len(hub.log.find("POST", "/commit/")) <= 5
    assert "what was made is kept" in done.said
    hub.faults.clear()
    made = len(hub.log.find("PUT"))
    fine(run(), repo)
    assert len(hub.log.find("PUT")) == made  # what arrived then is not sent again


@pytest.mark.usefixtures("lfs")
def test_a_commit_in_between_that_leaves_the_source_alone(
    hub: RunningHub, repo: Any, run: Any, waits: list[float]
) -> None:
    """The parent is then the newer head, so that transformers finds the pull request."""

    def meanwhile(_: Any) -> None:
        hub.push("owner/m", {"notes.txt": "new"})

    hub.faults.add("POST", "/commit/", Call(meanwhile))
    hub.faults.add("POST", "/commit/", Say(412, "A commit has happened since."), nth=1)
    hub.faults._table.reverse()
    done = run()
    fine(done, repo)
    hub.push("owner/m", {"b.txt": "b"})


@pytest.mark.parametrize("change", ["pytorch_model.bin", "config.json"])
@pytest.mark.usefixtures("lfs")
def test_a_commit_in_between_that_changes_the_source_stops_it(
    hub: RunningHub, repo: Any, run: Any, waits: list[float], change: str
) -> None:
    """The head moves while files are sent, right before the commit."""

    def meanwhile(_: Any) -> None:
        hub.push("owner/m", {change: b"another"})

    hub.faults.add("POST", "/objects/batch", Call(meanwhile))
    hub.faults.add("POST", "/commit/", Say(412, "A commit has happened since."))
    done = run()
    assert done.code == 4
    assert f"no longer holds what was converted: {change}" in done.findings()
    assert repo.discussions == []


@pytest.mark.usefixtures("lfs")
def test_two_runs_at_once_end_in_one_pull_request(
    hub: RunningHub, repo: Any, run: Any, api: Api
) -> None:
    """The other one's commit arrives between the look back and ours: the younger closes itself."""
    done = run()
    first = repo.discussions[0]
    text = first.comments[0].data["latest"]["raw"]
    data = repo.resolve("refs/pr/1").files["model.safetensors"].blob
    repo.discussions.clear()
    for ref in [ref for ref in repo.refs if ref.startswith("refs/pr/")]:
        del repo.refs[ref]

    def other(_: Any) -> None:
        api().create_commit(
            "owner/m",
            [CommitOperationAdd("model.safetensors", data.read(0, data.size))],
            commit_message=first.title,
            commit_description=text,
            create_pr=True,
            parent_commit=repo.head.id,
        )

    hub.faults.add("POST", "/commit/", Call(other))
    again = run()
    assert again.publish["pr_number"] == 1
    assert [one.status for one in repo.discussions] == ["open", "closed"]
    assert "Superseded by #1" in repo.discussions[1].comments[-1].data["latest"]["raw"]
    assert done.document["digest"] == again.document["digest"]
    assert run().publish["pr_number"] == 1


@pytest.mark.usefixtures("lfs")
def test_no_number_came_back_and_none_was_opened(
    hub: RunningHub, repo: Any, run: Any, waits: list[float]
) -> None:
    body = {"success": True, "commitOid": "0" * 40, "commitUrl": "x", "hookOutput": ""}
    hub.faults.add("POST", "/commit/", Say(200, body=body), times=None)
    done = run()
    assert done.code == 4
    assert "no pull request came of it" in done.findings()
    assert repo.discussions == []


@pytest.mark.usefixtures("lfs")
def test_no_number_came_back_but_it_is_there(
    hub: RunningHub, repo: Any, run: Any, waits: list[float]
) -> None:
    body = {"success": True, "commitOid": "0" * 40, "commitUrl": "x", "pullRequestUrl": None}
    hub.faults.add("POST", "/commit/", Say(200, body=body))
    fine(run(), repo)


def test_what_arrives_otherwise_is_noticed_and_closed(
    hub: RunningHub, repo: Any, run: Any, transfer: str
) -> None:
    """Somebody pushes to the pull request at the very moment, or the Hub mixes something up."""

    def spoil(_: Any) -> None:
        ref = "refs/pr/1"
        if ref in repo.refs and "spoilt.txt" not in repo.resolve(ref).files:
            hub.push("owner/m", {"model.safetensors": b"spoilt", "spoilt.txt": "x"}, ref=ref)

    hub.faults.add("GET", r"refs/pr/1|refs%2Fpr%2F1", Call(spoil), times=None)
    done = run()
    assert done.code == 4
    said = done.findings()
    assert "what the Hub holds is not what was sent" in said
    assert "model.safetensors has 6 bytes" in said
    assert "spoilt.txt was changed, too" in said
    [opened] = repo.discussions
    assert opened.status == "closed"


@pytest.mark.parametrize("path", ["/comment$", "/status$"])
def test_what_cannot_be_said_is_a_warning(
    hub: RunningHub, repo: Any, run: Any, waits: list[float], path: str
) -> None:
    hub.faults.add("POST", path, Say(500, "oops"), times=None)
    done = run()
    assert done.code == 0
    expected = "the comment was not posted" if "comment" in path else ""
    assert expected in done.findings("warning")
    hub.faults.clear()
    assert run().status == "up-to-date"
    assert len(repo.discussions[0].comments) == 2


def test_a_comment_whose_answer_was_lost_is_not_repeated(
    hub: RunningHub, repo: Any, run: Any, waits: list[float]
) -> None:
    hub.faults.add("POST", "/comment$", LoseAnswer())
    assert run().code == 0
    assert len(repo.discussions[0].comments) == 2


READS = [
    "whoami",
    "/api/models/owner/m$",
    "auth-check",
    "/discussions$",
    "preupload",
    "/tree/",
    "/discussions/1$",
    "/objects/batch",
    "/objects/verify",
]


@pytest.mark.parametrize("path", READS)
@pytest.mark.parametrize(
    "fault", [Say(500, "oops"), Say(429, "x"), Drop()], ids=("500", "429", "drop")
)
@pytest.mark.usefixtures("lfs")
def test_a_question_that_fails_once_is_asked_again(
    hub: RunningHub, repo: Any, run: Any, waits: list[float], path: str, fault: Any
) -> None:
    hub.faults.add("GET|POST|HEAD", path, fault)
    fine(run(), repo)


@pytest.mark.usefixtures("lfs")
@pytest.mark.parametrize(
    "fault", [Drop(), Say(500, "x"), Say(403, "expired")], ids=("drop", "500", "403")
)
def test_an_upload_that_breaks_off_is_tried_again(
    hub: RunningHub, repo: Any, run: Any, waits: list[float], fault: Any
) -> None:
    hub.faults.add("PUT", "/upload/", fault)
    fine(run(), repo)


def test_where_xet_fails_the_plain_way_is_taken(
    hub: RunningHub, repo: Any, run: Any, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import _commit_api, constants

    def broken(**_: Any) -> None:
        raise RuntimeError("xet: connection reset")

    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", False)
    monkeypatch.setattr(_commit_api, "_upload_xet_files", broken)
    fine(run(), repo)
    assert hub.log.find("PUT", "/upload/")
    assert constants.HF_HUB_DISABLE_XET is False


def test_a_file_that_the_hub_will_not_take(hub: RunningHub, repo: Any, run: Any) -> None:
    """`.gitattributes` says nothing of it: named before the commit, and left as it is."""
    large = b'{"a": "' + b"x" * (11 << 20) + b'"}'
    hub.push("owner/m", {"tokenizer.json": large})
    target = hub.repo("owner/copy", {".gitattributes": ""})
    target.upload_modes["tokenizer.json"] = "regular"
    done = run(publish={"repo": "owner/copy"})
    assert done.code == 4
    assert "tokenizer.json" in done.findings()
    assert "filter=lfs" in done.findings()
    assert hub.log.find("POST", "/commit/") == []


@pytest.mark.usefixtures("lfs")
def test_an_upload_over_which_nothing_moves_is_broken_off(
    hub: RunningHub, repo: Any, run: Any, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Hub says nothing until it is asked again."""
    again = threading.Event()
    hub.faults.add("PUT", "/upload/", Call(lambda _: again.wait(30)))
    hub.faults.add("PUT", "/upload/", Call(lambda _: again.set()), nth=2)
    monkeypatch.setattr(uploads, "STALL_SECONDS", 0.5)
    fine(run(), repo)
    assert again.is_set()
