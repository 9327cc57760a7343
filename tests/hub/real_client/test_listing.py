from __future__ import annotations

from collections.abc import Callable

import pytest
from huggingface_hub import HfApi

from tests.hub.loopback.server import RunningHub

Api = Callable[..., HfApi]


@pytest.fixture
def lab(hub: RunningHub) -> RunningHub:
    hub.user("owner", lab="read")
    hub.repo("lab/alpha", {"pytorch_model.bin": b"\x80"}, facts={"downloads": 1})
    hub.repo("lab/beta", {"model.safetensors": b"\0"}, facts={"downloads": 9, "tags": ["text"]})
    hub.repo("lab/secret", private=True, facts={"downloads": 5})
    hub.repo("other/alpha", facts={"library_name": "peft"})
    return hub


def ids(client: HfApi, **wanted: object) -> list[str]:
    return [model.id for model in client.list_models(**wanted)]  # type: ignore[arg-type]  # cases


def test_models_of_an_author_are_those_that_may_be_seen(lab: RunningHub, api: Api) -> None:
    assert ids(api(), author="lab") == ["lab/alpha", "lab/beta", "lab/secret"]
    assert ids(api(False), author="lab") == ["lab/alpha", "lab/beta"]


def test_pages_are_followed(lab: RunningHub, api: Api) -> None:
    lab.page_size = 2
    everything = ["lab/alpha", "lab/beta", "lab/secret", "other/alpha"]
    assert ids(api()) == everything
    assert ids(api(), limit=3) == everything[:3]
    assert len(lab.log.find("GET", "/api/models$")) == 4


@pytest.mark.usefixtures("lab")
def test_search_filter_and_sort(api: Api) -> None:
    assert ids(api(), search="ALPHA") == ["lab/alpha", "other/alpha"]
    assert ids(api(), filter="text") == ["lab/beta"]
    assert ids(api(), filter="peft") == ["other/alpha"]
    assert ids(api(), author="lab", sort="downloads") == ["lab/beta", "lab/secret", "lab/alpha"]


@pytest.mark.usefixtures("lab")
def test_expand_gives_what_a_bulk_run_needs(api: Api) -> None:
    fields = ["siblings", "sha", "private", "gated", "downloads", "usedStorage"]
    found = {model.id: model for model in api().list_models(author="lab", expand=fields)}  # type: ignore[arg-type]  # plain strings
    beta = found["lab/beta"]
    assert beta.siblings is not None
    assert [file.rfilename for file in beta.siblings] == ["model.safetensors"]
    assert (beta.downloads, beta.private, beta.used_storage) == (9, False, 1)
    assert len(beta.sha or "") == 40
    assert beta.tags is None
