from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import CommitOperationAdd, HfApi, constants, get_session, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

from tests.hub.loopback.faults import Call, Corrupt, Drop, IgnoreRange, LoseAnswer, Say, Truncate
from tests.hub.loopback.limits import Limit
from tests.hub.loopback.server import RunningHub

Api = Callable[..., HfApi]
WEIGHTS = bytes(range(256)) * 4000


@pytest.mark.parametrize("status", [409, 412, 429, 500, 502, 503])
def test_a_status_instead_of_an_answer(hub: RunningHub, api: Api, status: int) -> None:
    hub.repo("owner/m")
    hub.faults.add("GET", "/api/models/owner/m$", Say(status, "not now"))
    with pytest.raises(HfHubHTTPError, match="not now") as caught:
        api().model_info("owner/m")
    assert caught.value.response.status_code == status
    assert api().model_info("owner/m").id == "owner/m"


def test_the_nth_request_of_its_kind_and_no_other(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m")
    hub.faults.add("GET|HEAD", "/api/models/", Say(500), nth=2, times=2)
    statuses = []
    for _ in range(4):
        answer = get_session().get(f"{hub.endpoint}/api/models/owner/m")
        statuses.append(answer.status_code)
    assert statuses == [200, 500, 500, 200]


def test_calls_that_the_client_repeats_succeed_later(
    hub: RunningHub, api: Api, waits: list[float]
) -> None:
    hub.repo("owner/m", {"a": "a"})
    hub.faults.add("GET", "/tree/", Say(503), times=2)
    assert [item.path for item in api().list_repo_tree("owner/m")] == ["a"]
    assert waits == [1, 2]


def test_a_dropped_download_is_resumed_within_the_call(
    hub: RunningHub, api: Api, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 100_000)  # what arrives at once is kept
    hub.repo("owner/m", {"model.safetensors": WEIGHTS})
    hub.faults.add("GET", "/objects/", Drop(after=400_000))
    found = api().hf_hub_download("owner/m", "model.safetensors")
    assert Path(found).read_bytes() == WEIGHTS
    first, second = hub.log.find("GET", origin="cdn")
    assert (first.sent, first.range) == (400_000, None)
    assert second.range == "bytes=400000-"
    assert waits == [1]


def test_a_short_body_is_noticed_by_the_client(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", {"model.safetensors": WEIGHTS})
    hub.faults.add("GET", "/objects/", Truncate(to=1000))
    with pytest.raises(OSError, match="Consistency check failed"):
        api().hf_hub_download("owner/m", "model.safetensors")


def test_a_changed_byte_is_not_noticed_by_the_client(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", {"model.safetensors": WEIGHTS})
    hub.faults.add("GET", "/objects/", Corrupt(at=5))
    found = Path(api().hf_hub_download("owner/m", "model.safetensors")).read_bytes()
    assert [at for at in range(len(WEIGHTS)) if found[at] != WEIGHTS[at]] == [5]


def test_a_connection_that_breaks_before_anything_is_done(hub: RunningHub, api: Api) -> None:
    repo = hub.repo("owner/m")
    head = repo.head.id
    hub.faults.add("POST", "/commit/", Drop())
    with pytest.raises(httpx2.RemoteProtocolError):
        api().create_commit("owner/m", [CommitOperationAdd("a", b"a")], commit_message="Lost")
    assert repo.head.id == head


def test_an_answer_that_is_lost_after_the_commit(hub: RunningHub, api: Api) -> None:
    repo = hub.repo("owner/m")
    hub.faults.add("POST", "/commit/", LoseAnswer())
    addition = CommitOperationAdd("a", b"a")
    with pytest.raises(httpx2.RemoteProtocolError):
        api().create_commit("owner/m", [addition], commit_message="Done", create_pr=True)
    assert [found.title for found in repo.discussions] == ["Done"]


def test_something_happens_right_before(hub: RunningHub, api: Api) -> None:
    repo = hub.repo("owner/m")
    parent = repo.head.id
    race = Call(lambda _: hub.push("owner/m", {"b": "meanwhile"}))
    hub.faults.add("POST", "/commit/", race)
    with pytest.raises(HfHubHTTPError) as caught:
        api().create_commit(
            "owner/m",
            [CommitOperationAdd("a", b"a")],
            commit_message="Late",
            parent_commit=parent,
        )
    assert caught.value.response.status_code == 412


def test_an_answer_of_ones_own(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m")
    hub.faults.add("POST", "/commit/", Say(200, body={"success": True, "commitOid": "0" * 40}))
    with pytest.raises(KeyError):
        api().create_commit("owner/m", [CommitOperationAdd("a", b"a")], commit_message="Odd")


def test_a_range_can_be_ignored(hub: RunningHub) -> None:
    hub.repo("owner/m", {"model.safetensors": WEIGHTS})
    hub.faults.add("GET", "/objects/", IgnoreRange())
    url = hf_hub_url("owner/m", "model.safetensors")
    answer = get_session().get(url, headers={"Range": "bytes=5-9"})
    assert (answer.status_code, answer.content) == (200, WEIGHTS)


def test_the_first_fault_that_strikes_is_the_one(hub: RunningHub) -> None:
    hub.repo("owner/m")
    hub.faults.add("GET", "owner", Say(500), times=None)
    hub.faults.add("GET", "owner", Say(404), times=None)
    url = f"{hub.endpoint}/api/models/owner/m"
    assert get_session().get(url).status_code == 500
    hub.faults.clear()
    assert get_session().get(url).status_code == 200


def test_a_closed_hub_cannot_be_reached(hub: RunningHub, api: Api, waits: list[float]) -> None:
    hub.repo("owner/m", {"a": "a"})
    client = api()
    hub.close()
    with pytest.raises(httpx2.ConnectError):
        client.model_info("owner/m")
    with pytest.raises(LocalEntryNotFoundError):
        client.hf_hub_download("owner/m", "a")


def test_limits_are_counted_and_end_with_the_window(
    hub: RunningHub, api: Api, waits: list[float]
) -> None:
    hub.repo("owner/m", {"a": "a"})
    hub.limits.kinds["api"] = Limit(quota=2, window=30)
    client = api()
    for _ in range(3):
        assert [item.path for item in client.list_repo_tree("owner/m")] == ["a"]
    assert waits == [31]
    client.model_info("owner/m")
    with pytest.raises(HfHubHTTPError, match="Retry after 30 seconds"):
        client.model_info("owner/m")


def test_retry_after_is_obeyed(hub: RunningHub, api: Api, waits: list[float]) -> None:
    hub.repo("owner/m", {"a": "a"})
    hub.faults.add("GET", "/tree/", Say(429, headers={"Retry-After": "2"}))
    assert [item.path for item in api().list_repo_tree("owner/m")] == ["a"]
    assert waits == [3]


def test_the_log_counts_bytes_and_tokens(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", {"model.safetensors": WEIGHTS})
    api().hf_hub_download("owner/m", "model.safetensors")
    [head] = hub.log.find("HEAD")
    [body] = hub.log.find("GET", hashlib.sha256(WEIGHTS).hexdigest())
    assert (head.status, head.sent, head.had_token, head.origin) == (302, 0, True, "hub")
    assert (body.status, body.sent, body.had_token, body.origin) == (200, 1_024_000, False, "cdn")
    assert "hf_hub/" in head.user_agent
    assert hub.log.sent() == 1_024_000
    hub.log.clear()
    assert hub.log.records == []
