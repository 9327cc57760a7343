from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi
from huggingface_hub.errors import (
    BadRequestError,
    HfHubHTTPError,
    RemoteEntryNotFoundError,
)

from tests.hub.loopback.server import RunningHub
from tests.hub.loopback.state import LARGE

Api = Callable[..., HfApi]
WEIGHTS = bytes(range(256)) * 4000
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()


def read(hub: RunningHub, name: str, path: str, revision: str = "main") -> bytes:
    blob = hub.repos[name].resolve(revision).files[path].blob
    return blob.read(0, blob.size)


def test_a_commit_of_regular_and_large_files(
    hub: RunningHub, api: Api, tmp_path: Path, transfer: str
) -> None:
    repo = hub.repo("owner/m", {"old.txt": "old", "gone/a.txt": "a"})
    before = repo.head.id
    (tmp_path / "weights").write_bytes(WEIGHTS)
    info = api().create_commit(
        "owner/m",
        [
            CommitOperationAdd("README.md", b"# A model"),
            CommitOperationAdd("model.safetensors", tmp_path / "weights"),
            CommitOperationDelete("old.txt"),
            CommitOperationDelete("gone/"),
        ],
        commit_message="Title",
        commit_description="Why",
        parent_commit=before,
    )
    assert (info.oid, info.pr_url) == (repo.head.id, None)
    assert (repo.head.parent, repo.head.title, repo.head.message) == (before, "Title", "Why")
    assert list(repo.head.files) == ["README.md", "model.safetensors"]
    assert read(hub, "owner/m", "model.safetensors") == WEIGHTS
    assert (repo.head.files["model.safetensors"].xet is not None) == (transfer == "xet")
    assert repo.head.files["model.safetensors"].blob.sha256 == SHA256
    assert bool(hub.log.find("PUT", origin="cdn")) == (transfer == "lfs")
    assert hub.log.leaks == []


def test_a_shard_may_be_gone_when_the_commit_is_made(
    hub: RunningHub, api: Api, tmp_path: Path, transfer: str
) -> None:
    hub.repo("owner/m")
    client = api()
    operations = []
    for number in range(2):
        shard = tmp_path / f"shard{number}"
        shard.write_bytes(WEIGHTS + bytes([number]))
        addition = CommitOperationAdd(f"model-{number}.safetensors", shard)
        client.preupload_lfs_files("owner/m", [addition], create_pr=True)
        shard.unlink()
        operations.append(addition)
    info = client.create_commit("owner/m", operations, commit_message="Both", create_pr=True)
    assert info.pr_revision == "refs/pr/1"
    for number in range(2):
        path = f"model-{number}.safetensors"
        assert read(hub, "owner/m", path, "refs/pr/1") == WEIGHTS + bytes([number])


@pytest.mark.usefixtures("lfs")
def test_large_objects_travel_in_parts(hub: RunningHub, api: Api) -> None:
    hub.part_size = 300_000
    hub.repo("owner/m")
    addition = CommitOperationAdd("model.safetensors", WEIGHTS)
    api().create_commit("owner/m", [addition], commit_message="Parts")
    assert read(hub, "owner/m", "model.safetensors") == WEIGHTS
    assert len(hub.log.find("PUT", f"/upload/{SHA256}/")) == 4
    assert len(hub.log.find("POST", "/api/complete_multipart/")) == 1
    assert hub.parts == {}


@pytest.mark.usefixtures("lfs")
def test_what_is_already_there_is_not_sent_again(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/other", {"model.safetensors": WEIGHTS})
    hub.repo("owner/m")
    addition = CommitOperationAdd("model.safetensors", WEIGHTS)
    api().create_commit("owner/m", [addition], commit_message="Again")
    assert read(hub, "owner/m", "model.safetensors") == WEIGHTS
    assert hub.log.find("PUT") == []


def test_unchanged_files_make_no_commit(hub: RunningHub, api: Api, transfer: str) -> None:
    repo = hub.repo("owner/m", {"a.txt": "hi", "model.safetensors": WEIGHTS})
    head = repo.head.id
    same = [CommitOperationAdd("a.txt", b"hi"), CommitOperationAdd("model.safetensors", WEIGHTS)]
    info = api().create_commit("owner/m", same, commit_message="Same", create_pr=True)
    assert (info.oid, info.pr_url, repo.discussions) == (head, None, [])


def test_the_hub_decides_what_is_large(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m")
    files = {"a.txt": b"text", "b.txt": b"\0", "c.bin": b"text", "d.txt": b"x" * (LARGE + 1)}
    operations = [CommitOperationAdd(path, data) for path, data in files.items()]
    api().create_commit("owner/m", operations, commit_message="All")
    kinds = {path: file.lfs for path, file in hub.repos["owner/m"].head.files.items()}
    assert kinds == {"a.txt": False, "b.txt": True, "c.bin": True, "d.txt": True}


def test_a_regular_file_above_10_mib_is_refused_by_name(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", upload_modes={"tokenizer.json": "regular"})
    addition = CommitOperationAdd("tokenizer.json", b" " * (LARGE + 1))
    with pytest.raises(BadRequestError, match=r"larger than 10 MiB.*tokenizer\.json"):
        api().create_commit("owner/m", [addition], commit_message="Large")


def test_an_object_that_nobody_sent_is_refused(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m")
    addition = CommitOperationAdd("model.safetensors", WEIGHTS)
    addition._upload_mode, addition._is_uploaded = "lfs", True
    addition._should_ignore = False
    addition.upload_info.sha256 = bytes(32)
    with pytest.raises(BadRequestError, match=r"does not exist.*model\.safetensors"):
        api().create_commit("owner/m", [addition], commit_message="Nothing")


def test_deleting_what_is_not_there_is_refused(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m")
    with pytest.raises(RemoteEntryNotFoundError):
        api().create_commit("owner/m", [CommitOperationDelete("a")], commit_message="Delete")


def test_a_stale_parent_is_refused(hub: RunningHub, api: Api) -> None:
    stale = hub.repo("owner/m").head.id
    hub.push("owner/m", {"a.txt": "meanwhile"})
    addition = CommitOperationAdd("b.txt", b"b")
    with pytest.raises(HfHubHTTPError, match="commit has happened since") as caught:
        api().create_commit("owner/m", [addition], commit_message="Late", parent_commit=stale)
    assert caught.value.response.status_code == 412


def test_files_are_copied_between_repositories(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", {"config.json": "{}"})
    hub.push("owner/m", {"model.safetensors": WEIGHTS}, xet=True)
    hub.repo("owner/copy")
    operations = [
        CommitOperationCopy(path, path, src_repo_id="owner/m", src_repo_type="model")
        for path in ("config.json", "model.safetensors")
    ]
    api().create_commit("owner/copy", operations, commit_message="Copy")
    assert read(hub, "owner/copy", "config.json") == b"{}"
    assert read(hub, "owner/copy", "model.safetensors") == WEIGHTS


@pytest.mark.parametrize(("user", "role"), [("owner", "read"), ("visitor", "write")])
def test_writing_takes_the_right_to(hub: RunningHub, api: Api, user: str, role: str) -> None:
    hub.repo("owner/m")
    client = api(hub.token(user, role))  # type: ignore[arg-type]  # a case
    with pytest.raises(HfHubHTTPError, match="create_pr=1") as caught:
        client.create_commit("owner/m", [CommitOperationAdd("a", b"a")], commit_message="No")
    assert caught.value.response.status_code == 403


def test_storage_is_limited(hub: RunningHub, api: Api, transfer: str) -> None:
    hub.repo("owner/m", private=True)
    hub.storage_limits["owner"] = 1000
    addition = CommitOperationAdd("model.safetensors", WEIGHTS)
    with pytest.raises(HfHubHTTPError, match="storage limit reached"):
        api().create_commit("owner/m", [addition], commit_message="Full")
