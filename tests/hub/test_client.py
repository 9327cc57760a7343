from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import CommitOperationAdd

from hfconvert import __version__
from hfconvert.errors import Exit, UserError
from hfconvert.hub.about import Act
from hfconvert.hub.client import Client, connect
from hfconvert.hub.ranges import RemoteFile
from hfconvert.hub.source import pin
from hfconvert.tensors.source import read
from tests.hub.loopback.faults import Drop, Say
from tests.hub.loopback.limits import Limit
from tests.hub.loopback.server import RunningHub


def refusal(client: Client, call: Any, act: Act = "read", repo: str = "owner/m") -> str:
    """All the text of the error that the call ends in, which is exit 4."""
    with pytest.raises(UserError) as caught:
        client.ask(client.about(repo, act, revision="main"), call)
    assert caught.value.exit is Exit.HUB
    [problem] = caught.value.problems
    assert problem.what
    assert problem.why
    assert problem.do
    assert not any(token in str(caught.value) for token in ("hf_loopback", "Bearer"))
    assert caught.value.__suppress_context__
    return str(caught.value)


def info(client: Client, repo: str = "owner/m") -> Any:
    return lambda: client.api.model_info(repo)


def test_a_client_has_endpoint_account_and_user_agent(
    hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISABLE_SAFETENSORS_CONVERSION", raising=False)
    token = hub.token()
    client = connect(token=token)
    assert (client.endpoint, client.signed_in) == (hub.endpoint, True)
    hub.repo("owner/m")
    assert client.ask(client.about("owner/m"), info(client)).id == "owner/m"
    [record] = hub.log.records
    assert record.had_token
    assert record.user_agent.startswith(f"hfconvert/{__version__}; hf_hub/")
    assert os.environ["DISABLE_SAFETENSORS_CONVERSION"] == "1"
    assert token not in repr(client)


def test_without_a_token_it_is_a_stranger(hub: RunningHub) -> None:
    hub.repo("owner/m")
    client = connect()
    assert not client.signed_in
    client.ask(client.about("owner/m"), info(client))
    assert not hub.log.records[0].had_token


def test_the_token_of_the_environment_is_used(
    hub: RunningHub, sign_in: Callable[[str], None], tmp_path: Path
) -> None:
    hub.repo("owner/m", {"a.txt": "hello", "b.bin": b"\0" * 9}, private=True)
    sign_in(hub.token())
    client = connect()
    assert client.signed_in
    snapshot = pin(client, "owner/m")
    assert read(RemoteFile(snapshot, "a.txt", folder=tmp_path), 1, 4) == b"ell"
    assert read(RemoteFile(snapshot, "b.bin", folder=tmp_path), 1, 4) == bytes(3)
    assert hub.log.leaks == []


@pytest.mark.parametrize("signed_in", [True, False])
def test_absent_and_private_ones_are_told_by_who_asks(hub: RunningHub, signed_in: bool) -> None:
    hub.repo("other/private", private=True)
    client = connect(token=hub.token("visitor") if signed_in else None)
    text = refusal(client, info(client, "other/private"), repo="other/private")
    assert text.startswith("other/private@main: the repository was not found")
    assert ("no token was given" in text) != signed_in
    assert ("this token may not see it" in text) == signed_in


def test_a_token_that_the_hub_does_not_know(hub: RunningHub) -> None:
    hub.repo("owner/m")
    client = connect(token="hf_unknown0000000000000000000000000")
    text = refusal(client, info(client))
    assert "does not accept the token (401)" in text
    assert f"{hub.endpoint}/settings/tokens" in text


@pytest.mark.parametrize("signed_in", [True, False])
def test_gated_ones_say_where_to_ask(hub: RunningHub, signed_in: bool) -> None:
    hub.repo("owner/m", {"config.json": "{}"}, gated="manual")
    client = connect(token=hub.token("visitor") if signed_in else None)
    text = refusal(client, lambda: client.api.hf_hub_download("owner/m", "config.json"))
    assert "gated" in text
    assert f"ask for access at {hub.endpoint}/owner/m" in text
    assert ("no token was given" in text) != signed_in


def test_disabled_revision_and_file(hub: RunningHub) -> None:
    hub.repo("owner/disabled", disabled=True)
    hub.repo("owner/m", {"a": "a"})
    api = (client := connect(token=hub.token())).api
    assert "disabled this repository (403)" in refusal(client, info(client, "owner/disabled"))
    assert "no such revision (404)" in refusal(
        client, lambda: api.model_info("owner/m", revision="nothing")
    )
    assert "not found (404)" in refusal(client, lambda: api.hf_hub_download("owner/m", "b"))


@pytest.mark.parametrize(
    ("role", "act", "words"),
    [
        ("read", "propose", "open pull requests"),
        ("read", "write", "commit to it"),
        ("write", "write", "commit to it"),
    ],
)
def test_rights_that_are_missing_are_named(
    hub: RunningHub, role: Any, act: Act, words: str
) -> None:
    hub.repo("owner/m")
    client = connect(token=hub.token("visitor", role))
    text = refusal(client, lambda: commit(client, create_pr=act == "propose"), act)
    assert "this token may not do that (403)" in text
    assert f"it has no right to {words}" in text


def commit(client: Client, *, create_pr: bool = False, parent: str | None = None) -> None:
    client.api.create_commit(
        "owner/m",
        [CommitOperationAdd("a", b"a")],
        commit_message="Change",
        create_pr=create_pr,
        parent_commit=parent,
    )


def test_pull_requests_that_are_turned_off(hub: RunningHub) -> None:
    hub.repo("owner/m", pull_requests=False)
    client = connect(token=hub.token())
    text = refusal(client, lambda: commit(client, create_pr=True), "propose")
    assert "turned pull requests off (403)" in text
    assert "publish.repo" in text


def test_a_commit_meanwhile_and_full_storage(hub: RunningHub) -> None:
    repo = hub.repo("owner/m")
    parent = repo.head.id
    hub.push("owner/m", {"b": "meanwhile"})
    client = connect(token=hub.token())
    text = refusal(client, lambda: commit(client, parent=parent), "write")
    assert "committed to the repository meanwhile (412)" in text
    hub.storage_limits["owner"] = 0
    text = refusal(client, lambda: commit(client), "write")
    assert "no room for this (403)" in text
    assert "free storage of owner" in text


def test_creating_where_one_may_not(hub: RunningHub) -> None:
    client = connect(token=hub.token())
    text = refusal(client, lambda: client.api.create_repo("lab/m"), "create", "lab/m")
    assert "no right to make repositories there" in text


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "refused this (400)"),
        (402, "refused this (402)"),
        (409, "reports a conflict (409)"),
        (416, "no such part of the file (416)"),
        (418, "refused this (418)"),
        (505, "the Hub has trouble (505)"),
    ],
)
def test_other_refusals_are_not_repeated(hub: RunningHub, status: int, words: str) -> None:
    hub.repo("owner/m")
    hub.faults.add("GET", "/api/models/", Say(status, "its own words"), times=None)
    client = connect()
    text = refusal(client, info(client))
    assert words in text
    assert status == 416 or "its own words" in text
    assert len(hub.log.records) == 1


def test_the_words_of_the_hub_are_cleaned(hub: RunningHub) -> None:
    said = "token hf_abcdefghijklmnop at http://cdn/x?Signature=1"
    hub.faults.add("GET", "/api/models/", Say(400, said), times=None)
    client = connect()
    text = refusal(client, info(client))
    assert "token (token) at http://cdn/x" in text
    assert "Signature" not in text


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_questions_are_repeated(hub: RunningHub, waits: list[float], status: int) -> None:
    hub.repo("owner/m")
    hub.faults.add("GET", "/api/models/", Say(status), times=3)
    client = connect()
    assert client.ask(client.about("owner/m"), info(client)).id == "owner/m"
    assert [int(wait) for wait in waits] == [1, 2, 4]


def test_questions_are_repeated_five_times(hub: RunningHub, waits: list[float]) -> None:
    hub.faults.add("GET", "/api/models/", Say(503, "down"), times=None)
    client = connect()
    assert "the Hub has trouble (503)" in refusal(client, info(client))
    assert len(hub.log.records) == 6
    assert len(waits) == 5


def test_changes_are_never_repeated(hub: RunningHub, waits: list[float]) -> None:
    hub.repo("owner/m")
    hub.faults.add("POST", "/commit/", Say(503))
    client = connect(token=hub.token())
    with pytest.raises(UserError, match="the Hub has trouble"):
        client.once(client.about("owner/m", "write"), lambda: commit(client))
    assert len(hub.log.find("POST", "/commit/")) == 1
    assert waits == []


def test_rate_limits_are_waited_for(hub: RunningHub, waits: list[float]) -> None:
    hub.repo("owner/m")
    hub.limits.kinds["api"] = Limit(quota=1, window=200)
    client = connect()
    for _ in range(3):
        client.ask(client.about("owner/m"), info(client))
    assert [int(wait) for wait in waits] == [200, 200]


def test_rate_limits_too_long_to_wait_for_say_when(hub: RunningHub, waits: list[float]) -> None:
    hub.faults.add("GET", "/api/", Say(429, headers={"Retry-After": "4000"}), times=None)
    client = connect()
    text = refusal(client, info(client))
    assert "too many requests (429)" in text
    assert "run again in 4000 seconds; with a token the limit is higher" in text
    assert waits == []


def test_broken_connections_are_repeated_then_told(hub: RunningHub, waits: list[float]) -> None:
    hub.repo("owner/m")
    client = connect()
    hub.faults.add("GET", "/api/", Drop(), times=2)
    assert client.ask(client.about("owner/m"), info(client)).id == "owner/m"
    hub.close()
    text = refusal(client, info(client))
    assert f"{hub.endpoint} cannot be reached" in text


def test_what_is_no_hub_is_told(hub: RunningHub) -> None:
    client = connect(endpoint=f"{hub.endpoint}/")
    hub.faults.add("GET", "/api/", Say(200, body=b"<html>Log in here</html>"))
    assert f"what answered at {hub.endpoint} is no Hub" in refusal(client, info(client))


def test_offline_mode_is_told(hub: RunningHub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    client = connect()
    assert "HF_HUB_OFFLINE is set" in refusal(client, info(client))


def test_a_full_disk_is_no_fault_of_the_hub(hub: RunningHub) -> None:
    client = connect()

    def fail() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/cache/file")

    with pytest.raises(UserError, match="the disk is full") as caught:
        client.ask(client.about("owner/m"), fail)
    assert caught.value.exit is Exit.RESOURCES


def test_bugs_stay_bugs(hub: RunningHub) -> None:
    client = connect()

    def fail() -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        client.ask(client.about("owner/m"), fail)
    with pytest.raises(ValueError, match="a bug"):
        client.once(client.about("owner/m"), fail)


def test_impossible_names_are_faults_of_the_recipe(hub: RunningHub) -> None:
    client = connect()
    with pytest.raises(UserError, match="not the id of a repository") as caught:
        client.ask(client.about("a/b/c"), lambda: client.api.hf_hub_download("a/b/c", "x"))
    assert caught.value.exit is Exit.RECIPE


def test_the_password_of_a_mirror_is_in_no_text_of_it(waits: list[float]) -> None:
    client = connect("http://someone:s3cret@127.0.0.1:1")
    assert client.site == "http://127.0.0.1:1"
    assert "s3cret" not in repr(client)
    with pytest.raises(UserError, match="cannot be reached, or broke off") as caught:
        pin(client, "owner/m")
    assert "s3cret" not in str(caught.value)
