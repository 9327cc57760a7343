from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.hub.client import connect
from hfconvert.hub.source import Snapshot, cached_bytes, fetch, fetch_all, pin
from tests.hub.loopback.faults import Corrupt, Say, Truncate
from tests.hub.loopback.server import RunningHub

WEIGHTS = bytes(range(256)) * 4000
FILES: dict[str, str | bytes] = {
    "config.json": "{}",
    "model.safetensors": WEIGHTS,
    "unet/config.json": '{"a": 1}',
    "unet/model.bin": WEIGHTS[::-1],
}


@pytest.fixture
def snapshot(hub: RunningHub) -> Callable[..., Snapshot]:
    """Pin `owner/m`, which has FILES; after that the log is empty."""

    def make(revision: str | None = None) -> Snapshot:
        if "owner/m" not in hub.repos:
            hub.repo("owner/m", FILES)
        pinned = pin(connect(token=hub.token()), "owner/m", revision)
        hub.log.clear()
        return pinned

    return make


def test_a_revision_is_resolved_once(hub: RunningHub, snapshot: Callable[..., Snapshot]) -> None:
    pinned = snapshot()
    commit = hub.repos["owner/m"].head.id
    assert (pinned.repo, pinned.revision, pinned.commit) == ("owner/m", "main", commit)
    hub.push("owner/m", {"config.json": "newer"})
    assert fetch(pinned, "config.json").read_text() == "{}"
    assert snapshot("refs/heads/main").commit != commit
    assert snapshot(commit[:10]).commit == commit


def test_files_are_recorded_with_size_and_identity(snapshot: Callable[..., Snapshot]) -> None:
    files = snapshot().files
    assert list(files) == sorted(FILES)
    sha256 = hashlib.sha256(WEIGHTS).hexdigest()
    large = files["model.safetensors"]
    assert (large.size, large.identity) == (len(WEIGHTS), f"sha256:{sha256}")
    assert files["config.json"].size == 2
    assert files["config.json"].identity == "git:9e26dfeeb6e641a33dae4961196235bdb965b21b"


@pytest.mark.parametrize("place", ["../x", "a/../../x", "/etc/x", "a//x", "./x", "a\0x"], ids=ascii)
def test_a_file_outside_of_the_repository_is_refused_before_anything_is_fetched(
    hub: RunningHub, snapshot: Callable[..., Snapshot], place: str
) -> None:
    hub.repo("owner/m", {**FILES, place: "x"})
    with pytest.raises(UserError) as caught:
        snapshot()
    assert caught.value.exit == Exit.HUB
    assert f"outside of the repository: {place!r}" in str(caught.value)


FILE: dict[str, Any] = {"type": "file", "path": "config.json", "size": 2, "oid": "9e" * 20}
LARGE = {"size": 2, "oid": "9e" * 32, "pointerSize": 100}


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ([{**FILE, "path": "a\udc80"}], r"its name is 'a\udc80'"),
        ([{**FILE, "size": -5}], "its size is -5"),
        ([{**FILE, "size": "5"}], "its size is '5'"),
        ([{**FILE, "size": None}], "its size is None"),
        ([{**FILE, "size": 2.5}], "its size is 2.5"),
        ([{**FILE, "oid": "../x"}], "its git hash is '../x'"),
        ([{**FILE, "lfs": {**LARGE, "size": 1 << 70}}], f"its size is {1 << 70}"),
        ([{**FILE, "lfs": {**LARGE, "oid": "x"}}], "its sha256 hash is 'x'"),
        ([{**FILE, "lfs": [1]}], "TypeError"),
        ([{"type": "file"}], "KeyError"),
        ({"error": "x"}, "TypeError"),
        (5, "TypeError"),
    ],
    ids=range(12),
)
def test_a_listing_that_the_hub_would_not_give_is_refused(
    hub: RunningHub, snapshot: Callable[..., Snapshot], tree: Any, said: str
) -> None:
    hub.faults.add("GET", "/tree/", Say(200, body=tree), times=None)
    with pytest.raises(UserError, match="the answer is not one of the Hub") as caught:
        snapshot()
    assert caught.value.exit is Exit.HUB
    assert said in str(caught.value)


@pytest.mark.parametrize("sha", [None, 5, "", "../../x", "a\nb", "9e" * 21], ids=repr)
def test_a_commit_that_is_none_is_no_folder_in_the_cache(
    hub: RunningHub, snapshot: Callable[..., Snapshot], cache: Path, sha: Any
) -> None:
    hub.repo("owner/m", FILES)
    body = {"id": "owner/m", "sha": sha, "siblings": []}
    hub.faults.add("GET", "/api/models/owner/m", Say(200, body=body))
    with pytest.raises(UserError, match="the answer is not one of the Hub: the commit is"):
        snapshot()
    assert not cache.exists()


def test_facts_of_the_repository_come_along(
    hub: RunningHub, snapshot: Callable[..., Snapshot]
) -> None:
    hub.repo("owner/m", FILES, private=True, facts={"library_name": "diffusers"})
    facts = snapshot().facts
    assert (facts.private, facts.gated, facts.library_name) == (True, False, "diffusers")


def test_files_below_a_folder(snapshot: Callable[..., Snapshot]) -> None:
    pinned = snapshot()
    assert sorted(pinned.below("unet")) == ["config.json", "model.bin"]
    assert pinned.below("unet/")["model.bin"].path == "unet/model.bin"
    assert pinned.below(None).keys() == pinned.files.keys()
    assert pinned.below("nothing") == {}


def test_a_file_that_is_not_there_is_told_without_asking(
    hub: RunningHub, snapshot: Callable[..., Snapshot]
) -> None:
    pinned = snapshot()
    with pytest.raises(UserError, match="no such file at this commit") as caught:
        fetch(pinned, "other.bin")
    assert caught.value.exit is Exit.HUB
    assert hub.log.records == []


def test_whole_files_are_fetched_once(
    hub: RunningHub, snapshot: Callable[..., Snapshot], transfer: str
) -> None:
    hub.repo("owner/m")
    hub.push("owner/m", FILES, xet=transfer == "xet")
    pinned = snapshot()
    assert cached_bytes(pinned, FILES) == 0
    folder = fetch_all(pinned, FILES)
    for path, content in FILES.items():
        expected = content if isinstance(content, bytes) else content.encode()
        assert (folder / path).read_bytes() == expected
    assert hub.log.leaks == []
    assert cached_bytes(pinned, FILES) == sum(len(content) for content in FILES.values())
    hub.log.clear()
    assert fetch_all(pinned, FILES) == folder
    assert hub.log.records == []


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "gone"])
def test_a_damaged_cached_file_is_fetched_again_alone(
    hub: RunningHub, snapshot: Callable[..., Snapshot], transfer: str, damage: str
) -> None:
    hub.repo("owner/m")
    hub.push("owner/m", FILES, xet=transfer == "xet")
    pinned = snapshot()
    folder = fetch_all(pinned, FILES)
    spoil((folder / "model.safetensors").resolve(), damage)
    hub.log.clear()
    assert fetch_all(pinned, FILES) == folder
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert {record.path.rpartition("/")[2] for record in hub.log.find("HEAD")} == {
        "model.safetensors"
    }


def spoil(path: Path, damage: str) -> None:
    path.chmod(0o644)
    match damage:
        case "cut":
            path.write_bytes(WEIGHTS[:-1])
        case "changed":
            path.write_bytes(WEIGHTS[:-1] + b"!")
        case "empty":
            path.write_bytes(b"")
        case _:
            path.unlink()


@pytest.mark.usefixtures("lfs")
def test_a_file_that_arrives_damaged_is_fetched_again(
    hub: RunningHub, snapshot: Callable[..., Snapshot]
) -> None:
    pinned = snapshot()
    hub.faults.add("GET", "/objects/", Corrupt(at=7))
    assert fetch(pinned, "model.safetensors").read_bytes() == WEIGHTS
    assert len(hub.log.find("GET", origin="cdn")) == 2


@pytest.mark.usefixtures("lfs")
def test_a_file_that_arrives_damaged_twice_is_an_error(
    hub: RunningHub, snapshot: Callable[..., Snapshot]
) -> None:
    pinned = snapshot()
    hub.faults.add("GET", "/objects/", Corrupt(at=7), times=None)
    with pytest.raises(UserError, match="arrives damaged, twice") as caught:
        fetch(pinned, "model.safetensors")
    assert caught.value.exit is Exit.HUB


@pytest.mark.usefixtures("lfs")
def test_a_file_that_arrives_cut_is_fetched_once_more(
    hub: RunningHub, snapshot: Callable[..., Snapshot], waits: list[float]
) -> None:
    pinned = snapshot()
    hub.faults.add("GET", "/objects/", Truncate(to=10))
    assert fetch(pinned, "model.safetensors").read_bytes() == WEIGHTS
    assert [int(wait) for wait in waits] == [1]


@pytest.mark.usefixtures("lfs")
def test_a_file_that_keeps_arriving_cut_is_an_error_of_the_transfer(
    hub: RunningHub, snapshot: Callable[..., Snapshot], waits: list[float]
) -> None:
    pinned = snapshot()
    hub.faults.add("GET", "/objects/", Truncate(to=10), times=None)
    with pytest.raises(UserError, match="the transfer failed") as caught:
        fetch(pinned, "model.safetensors")
    assert caught.value.exit is Exit.HUB


def test_all_that_failed_is_told_at_once(
    hub: RunningHub, snapshot: Callable[..., Snapshot]
) -> None:
    pinned = snapshot()
    hub.faults.add("HEAD", "config.json", Say(403, "no"), times=None)
    with pytest.raises(UserError) as caught:
        fetch_all(pinned, FILES)
    subjects = {problem.subject for problem in caught.value.problems}
    start = f"owner/m@{pinned.commit[:12]}"
    assert subjects == {f"{start}/config.json", f"{start}/unet/config.json"}


def test_nothing_to_fetch(snapshot: Callable[..., Snapshot]) -> None:
    assert fetch_all(snapshot(), []) == Path()


def test_a_xet_store_that_fails_is_told(
    hub: RunningHub, snapshot: Callable[..., Snapshot], waits: list[float]
) -> None:
    hub.repo("owner/m")
    hub.push("owner/m", FILES, xet=True)
    pinned = snapshot()
    shutil.rmtree(hub.xet_store.folder / "xet/xorbs/xorbs")
    with pytest.raises(UserError, match="HF_HUB_DISABLE_XET=1 takes the plain way") as caught:
        fetch(pinned, "model.safetensors")
    assert caught.value.exit is Exit.HUB


def test_a_xet_token_that_is_refused_is_told(
    hub: RunningHub, snapshot: Callable[..., Snapshot], waits: list[float]
) -> None:
    hub.repo("owner/m")
    hub.push("owner/m", FILES, xet=True)
    pinned = snapshot()
    hub.faults.add("GET", "xet-read-token", Say(403, "no"), times=None)
    with pytest.raises(UserError, match="this token may not do that"):
        fetch(pinned, "model.safetensors")
