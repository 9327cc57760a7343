from __future__ import annotations

from collections.abc import Callable

import pytest
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import (
    DisabledRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tests.hub.loopback.server import RunningHub

Api = Callable[..., HfApi]


def test_create_and_delete(hub: RunningHub, api: Api) -> None:
    client = api()
    url = client.create_repo("owner/new", private=True)
    assert (url.repo_id, str(url)) == ("owner/new", f"{hub.endpoint}/owner/new")
    assert client.repo_info("owner/new").private is True
    client.delete_repo("owner/new")
    assert not client.repo_exists("owner/new")


@pytest.mark.usefixtures("hub")
def test_creating_twice_is_a_conflict_unless_that_is_fine(api: Api) -> None:
    client = api()
    client.create_repo("owner/new")
    with pytest.raises(HfHubHTTPError) as caught:
        client.create_repo("owner/new")
    assert caught.value.response.status_code == 409
    assert client.create_repo("owner/new", exist_ok=True).repo_id == "owner/new"


def test_creating_elsewhere_is_forbidden_even_if_it_exists(hub: RunningHub, api: Api) -> None:
    hub.repo("lab/m")
    with pytest.raises(HfHubHTTPError, match="rights to create a model") as caught:
        api().create_repo("lab/m")
    assert caught.value.response.status_code == 403
    assert api().create_repo("lab/m", exist_ok=True).repo_id == "lab/m"


def test_info_holds_what_is_known(hub: RunningHub, api: Api) -> None:
    card = "---\nlicense: mit\ntags: [text]\nlibrary_name: transformers\n---\n# A model\n"
    files: dict[str, str | bytes] = {"README.md": card, "model.safetensors": bytes(1000)}
    repo = hub.repo("owner/m", files, gated="auto", facts={"downloads": 7})
    info = api().model_info("owner/m")
    assert (info.id, info.sha, info.author) == ("owner/m", repo.head.id, "owner")
    assert (info.gated, info.downloads, info.library_name) == ("auto", 7, "transformers")
    assert info.card_data is not None
    assert info.card_data["license"] == "mit"
    assert info.siblings is not None
    assert [file.rfilename for file in info.siblings] == ["README.md", "model.safetensors"]


def test_info_with_files_has_sizes_and_hashes(hub: RunningHub, api: Api) -> None:
    repo = hub.repo("owner/m", {"a.txt": "hi", "model.safetensors": bytes(1000)})
    siblings = api().model_info("owner/m", files_metadata=True).siblings
    assert siblings is not None
    small, large = siblings
    assert (small.size, small.lfs) == (2, None)
    assert small.blob_id == "32f95c0d1244a78b2be1bab8de17906fabb2c4a8"  # git hash-object
    assert large.lfs is not None
    assert large.lfs["sha256"] == repo.head.files["model.safetensors"].blob.sha256
    assert large.lfs["size"] == large.size == 1000


def test_info_with_expand_holds_only_that(hub: RunningHub, api: Api) -> None:
    repo = hub.repo("owner/m", {"model.safetensors": bytes(1000)})
    info = api().model_info("owner/m", expand=["sha", "usedStorage"])
    assert (info.sha, info.used_storage) == (repo.head.id, 1000)
    assert (info.siblings, info.tags) == (None, None)


def test_security_status_names_the_files_with_issues(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", {"a.bin": b"\x80"}, security={"a.bin": "unsafe"})
    status = api().model_info("owner/m", securityStatus=True).security_repo_status
    assert status == {"scansDone": True, "filesWithIssues": [{"path": "a.bin", "level": "unsafe"}]}


def test_a_renamed_repository_is_found_under_its_old_name(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/old", {"a.txt": "hi"})
    client = api()
    client.move_repo("owner/old", "owner/new")
    assert client.model_info("owner/old").id == "owner/new"
    with open(client.hf_hub_download("owner/old", "a.txt")) as file:  # noqa: PTH123  # a name
        assert file.read() == "hi"


def test_a_disabled_repository_says_so(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", disabled=True)
    with pytest.raises(DisabledRepoError):
        api().model_info("owner/m")


@pytest.mark.parametrize(("known", "status"), [(True, 404), (False, 401)])
@pytest.mark.parametrize("name", ["visitor/absent", "owner/private"])
def test_what_may_not_be_seen_looks_absent(
    hub: RunningHub,
    api: Api,
    name: str,
    known: bool,  # a case
    status: int,
) -> None:
    hub.repo("owner/private", private=True)
    client = api(hub.token("visitor") if known else False)
    with pytest.raises(RepositoryNotFoundError) as caught:
        client.model_info(name)
    assert caught.value.response.status_code == status


def test_revisions_are_branches_tags_refs_and_commits(hub: RunningHub, api: Api) -> None:
    repo = hub.repo("owner/m", {"a.txt": "1"})
    first = repo.head.id
    client = api()
    client.create_branch("owner/m", branch="dev")
    client.create_tag("owner/m", tag="v1")
    hub.push("owner/m", {"a.txt": "2"})
    for revision in ("dev", "v1", "refs/heads/dev", first, first[:8]):
        assert client.model_info("owner/m", revision=revision).sha == first
    assert client.model_info("owner/m", revision="HEAD").sha == repo.head.id
    with pytest.raises(RevisionNotFoundError):
        client.model_info("owner/m", revision="nothing")


def test_resolve_revision_gives_the_commit(hub: RunningHub, api: Api) -> None:
    repo = hub.repo("owner/m", {"a.txt": "1"})
    assert api().resolve_revision("owner/m").resolved == repo.head.id


def test_refs_and_commits(hub: RunningHub, api: Api) -> None:
    hub.page_size = 2
    repo = hub.repo("owner/m", {"a.txt": "1"})
    hub.push("owner/m", {"a.txt": "2"}, title="Second")
    client = api()
    client.create_branch("owner/m", branch="dev")
    client.create_commit(
        "owner/m", [CommitOperationAdd("b", b"b")], commit_message="Proposal", create_pr=True
    )
    refs = client.list_repo_refs("owner/m", include_pull_requests=True)
    assert [ref.name for ref in refs.branches] == ["main", "dev"]
    assert [ref.ref for ref in refs.pull_requests or []] == ["refs/pr/1"]
    commits = client.list_repo_commits("owner/m", revision="refs/pr/1")
    titles = ["Proposal", "Second", "Upload", "initial commit"]
    assert [commit.title for commit in commits] == titles
    assert commits[1].commit_id == repo.head.id
    assert (commits[0].authors, commits[0].created_at > commits[1].created_at) == (["owner"], True)
