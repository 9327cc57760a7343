from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import RemoteEntryNotFoundError
from huggingface_hub.hf_api import RepoFile, RepoFolder

from tests.hub.loopback.server import RunningHub

Api = Callable[..., HfApi]
FILES: dict[str, str | bytes] = {
    "a.txt": "hi",
    "model.safetensors": bytes(1000),
    "unet/config.json": "{}",
    "unet/deep/model.bin": b"\x80\x02",
}


def test_one_level_or_all(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", FILES)
    top = list(api().list_repo_tree("owner/m"))
    assert [item.path for item in top] == ["a.txt", "model.safetensors", "unet"]
    assert isinstance(top[2], RepoFolder)
    every = [item.path for item in api().list_repo_tree("owner/m", recursive=True)]
    assert every == [
        *("a.txt", "model.safetensors", "unet", "unet/config.json"),
        *("unet/deep", "unet/deep/model.bin"),
    ]
    below = [item.path for item in api().list_repo_tree("owner/m", "unet")]
    assert below == ["unet/config.json", "unet/deep"]
    with pytest.raises(RemoteEntryNotFoundError):
        list(api().list_repo_tree("owner/m", "vae"))


def test_files_have_sizes_and_hashes(hub: RunningHub, api: Api) -> None:
    repo = hub.repo("owner/m", FILES)
    tree = list(api().list_repo_tree("owner/m", recursive=True, expand=True))
    files = {item.path: item for item in tree if isinstance(item, RepoFile)}
    large = files["model.safetensors"]
    assert large.lfs is not None
    assert large.lfs.sha256 == repo.head.files["model.safetensors"].blob.sha256
    assert (large.size, large.lfs.pointer_size) == (1000, 129)
    assert large.last_commit is not None
    assert large.last_commit.oid == repo.head.id
    assert large.security is not None
    assert large.security.safe
    assert files["a.txt"].lfs is None


def test_git_agrees_on_the_ids(hub: RunningHub, api: Api, tmp_path: Path) -> None:
    hub.repo("owner/m", FILES)
    files = [item for item in api().list_repo_tree("owner/m") if isinstance(item, RepoFile)]
    assert files[1].lfs is not None
    oid, size = files[1].lfs.sha256, files[1].size
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n"
    for file, text in zip(files, ("hi", pointer), strict=True):
        (tmp_path / "text").write_text(text)
        command = ["git", "hash-object", "--no-filters", str(tmp_path / "text")]
        assert file.blob_id == subprocess.check_output(command, text=True).strip()


def test_long_trees_come_in_pages(hub: RunningHub, api: Api) -> None:
    hub.page_size = 7
    names = [f"file{number:02d}" for number in range(30)]
    hub.repo("owner/m", dict.fromkeys(names, "x"))
    assert [item.path for item in api().list_repo_tree("owner/m")] == names
    assert len(hub.log.find("GET", "/tree/")) == 5


def test_paths_info_leaves_out_what_is_not_there(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", FILES, security={"unet/deep/model.bin": "unsafe"})
    asked = ["unet/deep/model.bin", "nothing", "unet"]
    found = api().get_paths_info("owner/m", asked, expand=True)
    assert [item.path for item in found] == ["unet/deep/model.bin", "unet"]
    assert isinstance(found[0], RepoFile)
    assert found[0].security is not None
    assert (found[0].security.safe, found[0].security.status) == (False, "unsafe")


def test_files_in_the_xet_store_have_its_hash(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m")
    hub.push("owner/m", {"model.safetensors": bytes(1000), "a.txt": "hi"}, xet=True)
    large = api().get_paths_info("owner/m", "model.safetensors")[0]
    assert isinstance(large, RepoFile)
    assert len(large.xet_hash or "") == 64
