from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import GatedRepoError

from tests.hub.loopback.server import RunningHub

Api = Callable[..., HfApi]


@pytest.mark.parametrize(("known", "status"), [(True, 403), (False, 401)])
def test_a_gate_keeps_files_but_not_facts(
    hub: RunningHub,
    api: Api,
    known: bool,
    status: int,
) -> None:
    hub.repo("owner/m", {"config.json": "{}", "README.md": "# M"}, gated="manual")
    client = api(hub.token("visitor") if known else False)
    assert client.model_info("owner/m").gated == "manual"
    assert [item.path for item in client.list_repo_tree("owner/m")] == ["README.md", "config.json"]
    assert client.hf_hub_download("owner/m", "README.md")
    with pytest.raises(GatedRepoError) as caught:
        client.hf_hub_download("owner/m", "config.json")
    assert caught.value.response.status_code == status
    with pytest.raises(GatedRepoError):
        client.auth_check("owner/m")


def test_who_was_let_in_reads(hub: RunningHub, api: Api) -> None:
    repo = hub.repo("owner/m", {"config.json": "{}"}, gated="auto")
    repo.granted.add("visitor")
    for name in ("visitor", "owner"):
        found = api(hub.token(name)).hf_hub_download("owner/m", "config.json")
        assert Path(found).read_text() == "{}"


def test_owners_set_the_gate(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", private=True)
    api().update_repo_settings("owner/m", gated="auto", private=False)
    assert (hub.repos["owner/m"].gated, hub.repos["owner/m"].private) == ("auto", False)
