"""Sections N and O of the cases, as far as they concern publishing; a case has a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from huggingface_hub import CommitOperationAdd, HfApi

from tests.hub.loopback.faults import Drop, Say
from tests.hub.loopback.server import RunningHub

Api = Callable[..., HfApi]
TITLE = "Adding `safetensors` variant of this model"


@pytest.mark.parametrize("times", [1, None])
@pytest.mark.usefixtures("lfs")
def test_187_somebody_committed_meanwhile(
    hub: RunningHub, repo: Any, run: Any, waits: list[float], times: int | None
) -> None:
    hub.faults.add("POST", "/commit/", Say(412, "A commit has happened since."), times=times)
    done = run()
    assert done.code == (0 if times else 4)
    assert len(repo.discussions) == (1 if times else 0)
    tries = len(hub.log.find("POST", "/commit/"))
    assert tries == (2 if times else 5)
    assert len(set(waits)) == len(waits) == (1 if times else 5)  # with jitter


@pytest.mark.parametrize("headers", [{"Retry-After": "2"}, {}], ids=("told", "untold"))
@pytest.mark.usefixtures("lfs")
def test_188_too_many_commits(
    hub: RunningHub, repo: Any, run: Any, waits: list[float], headers: dict[str, str]
) -> None:
    hub.faults.add("POST", "/commit/", Say(429, "commit limit", headers=headers))
    assert run().code == 0
    assert len(repo.discussions) == 1
    assert 2 <= waits[-1] < 3 if headers else waits[-1] >= 1


@pytest.mark.usefixtures("lfs")
def test_190_three_hundred_files_make_one_commit_and_one_pull_request(
    hub: RunningHub, repo: Any, run: Any
) -> None:
    notes = {f"notes/{i:03}.txt": f"note {i}" for i in range(300)}
    hub.push("owner/m", notes)
    assert run(publish={"repo": "owner/copy"}).code == 0
    copy = hub.repos["owner/copy"]
    assert len(copy.discussions) == 1
    commits = list(copy.history(copy.resolve("refs/pr/1")))
    assert commits[1].id == copy.head.id
    assert notes.keys() <= commits[0].files.keys()
    assert len(hub.log.find("POST", "/commit/")) == 1


def test_191_an_existing_repository_is_never_created(hub: RunningHub, repo: Any, run: Any) -> None:
    hub.faults.add("POST", "/repos/create", Say(403, "no right"), times=None)
    assert run().code == 0
    assert hub.log.find(path="/repos/create") == []


@pytest.mark.usefixtures("lfs")
def test_193_no_pull_request_came_back(
    hub: RunningHub, repo: Any, run: Any, waits: list[float]
) -> None:
    hub.faults.add("POST", "/commit/", Say(200, body={"success": True}), times=None)
    done = run()
    assert done.code == 4
    assert "no pull request came of it" in done.findings()


@pytest.mark.parametrize("status", ["open", "closed", "merged"])
def test_194_one_by_another_author_of_the_same_title(
    hub: RunningHub, repo: Any, run: Any, api: Api, status: str
) -> None:
    api(hub.token("other")).create_commit(
        "owner/m",
        [CommitOperationAdd("model.safetensors", b"other")],
        commit_message=TITLE,
        create_pr=True,
    )
    repo.discussions[0].status = status
    assert run().publish["pr_number"] == 2
    assert [one.status for one in repo.discussions] == [status, "open"]


@pytest.mark.usefixtures("lfs")
def test_196_an_upload_that_breaks_off_at_half(
    hub: RunningHub, run: Any, waits: list[float], files: dict[str, bytes]
) -> None:
    repo = hub.repo("owner/m", files)
    hub.faults.add("PUT", "/upload/", Drop(), times=2)
    assert run().code == 0
    assert len(repo.discussions) == 1


@pytest.mark.parametrize(
    ("user", "settings", "words"),
    [
        (None, {}, "publishing takes a token"),
        ("visitor", {"gated": "manual"}, "gated, and this account has no access"),
        ("visitor", {"private": True}, "the repository was not found"),
        ("owner", None, "the repository was not found"),
    ],
    ids=("no token", "gated", "private", "absent"),
)
def test_197_why_it_cannot_be_reached(
    hub: RunningHub, run: Any, files: dict[str, bytes], user: str | None, settings: Any, words: str
) -> None:
    if settings is not None:
        hub.repo("owner/m", files, **settings)
    done = run(token=hub.token(user) if user else None)
    assert done.code == 4
    assert words in done.findings()


@pytest.mark.usefixtures("lfs")
def test_221_large_files_go_by_the_commit_api_in_parts(
    hub: RunningHub, repo: Any, run: Any
) -> None:
    hub.part_size = 2000
    assert run().code == 0
    assert len(hub.log.find("PUT", r"/upload/[0-9a-f]+/\d+$")) > 2
    assert hub.log.find(path=r"\.git/(info/refs|git-)") == []


def test_223_what_the_hub_says_of_a_file_is_trusted(
    hub: RunningHub, repo: Any, run: Any, transfer: str
) -> None:
    """A tokenizer of 11 MiB goes where the Hub says; `.gitattributes` is not touched."""
    hub.push("owner/m", {"tokenizer.json": b" " * (11 << 20)})
    target = hub.repo("owner/copy", {".gitattributes": "*.safetensors filter=lfs"})
    assert run(publish={"repo": "owner/copy"}).code == 0
    files = target.resolve("refs/pr/1").files
    assert files["tokenizer.json"].lfs
    assert files[".gitattributes"] == target.head.files[".gitattributes"]
