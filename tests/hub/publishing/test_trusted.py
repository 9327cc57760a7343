"""Trusted Publishers: the token of an identity is for what is published, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import _auth

from hfconvert.hub import publisher
from tests.hub.loopback.faults import Say
from tests.hub.loopback.server import RunningHub
from tests.hub.publishing.conftest import Run

IDENTITY = "what GitHub says of the job"


@pytest.fixture(autouse=True)
def trusted(
    hub: RunningHub, files: Mapping[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """`owner/m` trusts this job; its source lies with somebody else, for whom there is a token."""
    hub.repo("owner/m", files)
    hub.repo("other/source", files, private=True)
    hub.publishers["owner/m"] = IDENTITY
    monkeypatch.setenv("HF_OIDC_RESOURCE", "owner/m")
    monkeypatch.setenv("HF_OIDC_ID_TOKEN", IDENTITY)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
    monkeypatch.setattr(_auth, "_OIDC_TOKEN_CACHE", None)
    yield
    monkeypatch.setattr(_auth, "_OIDC_TOKEN_CACHE", None)


def publish_elsewhere(run: Run, hub: RunningHub, **publish: str) -> tuple[str, str]:
    """The status, and the token that was given for reading `other/source`."""
    token = hub.token("other", "read")
    wish = {"repo": "owner/m", **publish}
    source = {"repo": "other/source"}
    done = run(token=token, source=source, publish=wish, output={"disk": "normal"})
    return done.status, token


@pytest.mark.parametrize("how", ["pull_request", "commit"])
def test_each_repository_sees_its_own_token(run: Run, hub: RunningHub, how: str) -> None:
    hub.repo("owner/m", {"README.md": "# m\n"})
    status, stored = publish_elsewhere(run, hub, how=how)
    assert status == "converted"
    issued = next(one for one in hub.tokens if one != stored)
    used = {
        repo: {one.token for one in hub.log.find(path=repo, origin="hub")}
        for repo in ("other/source", "owner/m")
    }
    assert used == {"other/source": {stored}, "owner/m": {issued}}


def test_a_stranger_reads_without_a_token(run: Run, hub: RunningHub) -> None:
    done = run(token=None)
    assert (done.status, len(hub.tokens)) == ("converted", 1)
    assert done.publish["pr_number"] == 1


def test_a_job_that_is_not_trusted(run: Run, hub: RunningHub) -> None:
    hub.publishers["owner/m"] = "another workflow"
    done = run(token=None)
    assert done.code == 4
    said = done.findings()
    assert "owner/m: the Hub gives this workflow no token for owner/m (400, invalid_grant: " in said
    assert "exactly this GitHub repository, branch and workflow" in said
    assert f"{hub.endpoint}/owner/m/settings" in said


def test_a_job_without_an_identity(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_OIDC_ID_TOKEN")
    done = run(token=None)
    assert done.code == 4
    assert "this job has no identity that the Hub could know" in done.findings()
    assert "id-token: write" in done.findings()


def test_another_repository_than_the_trusting_one(run: Run, hub: RunningHub) -> None:
    done = run(token=None, publish={"repo": "owner/another"})
    assert done.code == 4
    assert "signs in as a publisher of owner/m, and of nothing else" in done.findings()
    assert hub.tokens == {}


def test_a_huggingface_hub_that_knows_nothing_of_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "OIDC_ERRORS", ())
    done = run(token=None)
    assert done.code == 2
    assert "install huggingface_hub>=1.19" in done.findings()


@pytest.mark.parametrize(("how", "code"), [("commit", 0), ("pull_request", 4)])
def test_a_token_that_belongs_to_nobody_may_commit(
    run: Run, hub: RunningHub, how: str, code: int
) -> None:
    hub.faults.add("GET", "/api/whoami-v2", Say(403), times=None)
    assert run(token=None, publish={"how": how}).code == code
