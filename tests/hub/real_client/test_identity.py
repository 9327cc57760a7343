from __future__ import annotations

from collections.abc import Callable

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError

from tests.hub.loopback.server import RunningHub

Api = Callable[..., HfApi]


def test_whoami_says_the_account_its_organisations_and_the_role_of_the_token(
    hub: RunningHub, api: Api
) -> None:
    hub.user("owner", lab="write")
    found = api(hub.token("owner", "read")).whoami()
    assert (found["name"], found["orgs"][0]["name"]) == ("owner", "lab")
    assert found["orgs"][0]["roleInOrg"] == "write"
    assert found["auth"]["accessToken"]["role"] == "read"


def test_whoami_lists_the_rights_of_a_fine_grained_token(hub: RunningHub, api: Api) -> None:
    token = hub.token(
        "owner",
        "fineGrained",
        scoped={"owner/model": ("repo.content.read", "repo.write")},
        everywhere=("discussion.write",),
    )
    access = api(token).whoami()["auth"]["accessToken"]
    assert access["role"] == "fineGrained"
    assert access["fineGrained"]["global"] == ["discussion.write"]
    [scope] = access["fineGrained"]["scoped"]
    assert scope["entity"]["name"] == "owner/model"
    assert scope["permissions"] == ["repo.content.read", "repo.write"]


@pytest.mark.usefixtures("hub")
def test_an_unknown_token_is_refused(api: Api) -> None:
    with pytest.raises(HfHubHTTPError, match="Invalid user token") as caught:
        api("hf_unknown").whoami()
    assert caught.value.response.status_code == 401


@pytest.mark.parametrize(
    ("role", "scoped", "readable", "writable"),
    [
        ("read", {}, True, False),
        ("write", {}, True, True),
        ("fineGrained", {}, False, False),
        ("fineGrained", {"owner/m": ("repo.content.read",)}, True, False),
        ("fineGrained", {"owner/m": ("repo.write",)}, True, True),
        ("fineGrained", {"owner": ("repo.write",)}, True, True),
        ("fineGrained", {"owner/other": ("repo.write",)}, False, False),
    ],
)
def test_a_token_opens_what_its_scopes_say(
    hub: RunningHub,
    api: Api,
    role: str,
    scoped: dict[str, tuple[str, ...]],
    readable: bool,  # a case
    writable: bool,  # a case
) -> None:
    hub.repo("owner/m", private=True)
    client = api(hub.token("owner", role, scoped=scoped))  # type: ignore[arg-type]  # a case
    assert _allowed(client) == readable
    assert _allowed(client, write=True) == writable


def _allowed(client: HfApi, *, write: bool = False) -> bool:
    try:
        client.auth_check("owner/m", write=write)
    except HfHubHTTPError as error:
        return error.response.status_code not in (403, 404)
    return True


def test_roles_in_an_organisation_decide(hub: RunningHub, api: Api) -> None:
    hub.repo("lab/m")
    hub.user("reader", lab="read")
    hub.user("writer", lab="write")
    with pytest.raises(HfHubHTTPError, match="create_pr=1"):
        api(hub.token("reader")).auth_check("lab/m", write=True)
    api(hub.token("writer")).auth_check("lab/m", write=True)
