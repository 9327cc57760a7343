from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import HfApi, get_hf_file_metadata, get_session, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError, RemoteEntryNotFoundError, RevisionNotFoundError
from huggingface_hub.utils._http import hf_raise_for_status

from tests.hub.loopback.blobs import VirtualBlob
from tests.hub.loopback.server import RunningHub

Api = Callable[..., HfApi]
WEIGHTS = bytes(range(256)) * 4000


def test_whole_files_arrive_in_the_cache(
    hub: RunningHub, api: Api, cache: Path, transfer: str
) -> None:
    repo = hub.repo("owner/m", {"config.json": "{}"})
    hub.push("owner/m", {"model.safetensors": WEIGHTS}, xet=transfer == "xet")
    client = api()
    large = Path(client.hf_hub_download("owner/m", "model.safetensors"))
    small = Path(client.hf_hub_download("owner/m", "config.json", revision=repo.head.id))
    assert (large.read_bytes(), small.read_text()) == (WEIGHTS, "{}")
    assert large.parent == cache / "models--owner--m" / "snapshots" / repo.head.id
    assert bool(hub.log.find("GET", origin="cdn")) == (transfer == "lfs")
    assert hub.log.leaks == []


def test_a_cached_commit_is_not_asked_for_again(hub: RunningHub, api: Api) -> None:
    repo = hub.repo("owner/m", {"model.safetensors": WEIGHTS})
    api().hf_hub_download("owner/m", "model.safetensors", revision=repo.head.id)
    hub.log.clear()
    api().hf_hub_download("owner/m", "model.safetensors", revision=repo.head.id)
    assert hub.log.records == []


def test_a_file_in_xet_is_readable_without_xet(hub: RunningHub, api: Api, lfs: None) -> None:
    hub.repo("owner/m")
    hub.push("owner/m", {"model.safetensors": WEIGHTS}, xet=True)
    found = api().hf_hub_download("owner/m", "model.safetensors")
    assert Path(found).read_bytes() == WEIGHTS
    assert hub.log.find("GET", origin="cdn")


def test_snapshots_are_of_one_commit(hub: RunningHub, api: Api, transfer: str) -> None:
    hub.repo("owner/m", {"config.json": "{}", "sub/a.txt": "hi"})
    commit = hub.push("owner/m", {"model.safetensors": WEIGHTS}, xet=transfer == "xet")
    hub.push("owner/m", {"config.json": "newer"})
    folder = Path(api().snapshot_download("owner/m", revision=commit.id))
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert files == {"config.json": b"{}", "a.txt": b"hi", "model.safetensors": WEIGHTS}


def test_metadata_of_regular_and_large_files(hub: RunningHub, api: Api) -> None:
    repo = hub.repo("owner/m", {"a.txt": "hi", "model.safetensors": WEIGHTS})
    token = api().token
    small = get_hf_file_metadata(hf_hub_url("owner/m", "a.txt"), token=token)
    assert (small.commit_hash, small.size) == (repo.head.id, 2)
    assert small.etag == "32f95c0d1244a78b2be1bab8de17906fabb2c4a8"
    large = get_hf_file_metadata(hf_hub_url("owner/m", "model.safetensors"), token=token)
    assert (large.size, large.etag) == (len(WEIGHTS), hashlib.sha256(WEIGHTS).hexdigest())
    assert large.location.startswith(hub.cdn)
    assert large.xet_file_data is None


def test_what_is_not_there(hub: RunningHub, api: Api, cache: Path) -> None:
    repo = hub.repo("owner/m", {"a.txt": "hi"})
    with pytest.raises(RemoteEntryNotFoundError):
        api().hf_hub_download("owner/m", "b.txt")
    assert (cache / "models--owner--m" / ".no_exist" / repo.head.id / "b.txt").exists()
    with pytest.raises(RevisionNotFoundError):
        api().hf_hub_download("owner/m", "a.txt", revision="nothing")
    assert api().file_exists("owner/m", "a.txt")
    assert not api().file_exists("owner/m", "b.txt")


@pytest.mark.parametrize(
    ("header", "start", "stop"),
    [
        ("bytes=0-9", 0, 10),
        ("bytes=1000-", 1000, len(WEIGHTS)),
        ("bytes=-5", len(WEIGHTS) - 5, len(WEIGHTS)),
        (f"bytes={len(WEIGHTS) - 3}-{len(WEIGHTS) + 99}", len(WEIGHTS) - 3, len(WEIGHTS)),
    ],
)
def test_ranges_follow_the_redirect(hub: RunningHub, header: str, start: int, stop: int) -> None:
    hub.repo("owner/m", {"model.safetensors": WEIGHTS})
    url = hf_hub_url("owner/m", "model.safetensors")
    headers = {"Range": header, "Authorization": f"Bearer {hub.token()}"}
    answer = get_session().get(url, headers=headers)
    assert (answer.status_code, answer.content) == (206, WEIGHTS[start:stop])
    assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(WEIGHTS)}"
    assert hub.log.sent(origin="cdn") == stop - start
    assert hub.log.leaks == []


def test_a_range_beyond_the_end_is_refused(hub: RunningHub) -> None:
    hub.repo("owner/m", {"model.safetensors": WEIGHTS})
    url = hf_hub_url("owner/m", "model.safetensors")
    answer = get_session().get(url, headers={"Range": f"bytes={len(WEIGHTS)}-"})
    with pytest.raises(HfHubHTTPError, match=f"bytes \\*/{len(WEIGHTS)}"):
        hf_raise_for_status(answer)
    assert answer.status_code == 416


def test_storage_refuses_a_token(hub: RunningHub) -> None:
    hub.repo("owner/m", {"model.safetensors": WEIGHTS})
    sha256 = hashlib.sha256(WEIGHTS).hexdigest()
    answer = get_session().get(
        f"{hub.cdn}/objects/{sha256}", headers={"Authorization": f"Bearer {hub.token()}"}
    )
    assert answer.status_code == 400
    assert len(hub.log.leaks) == 1


def test_a_file_of_100_gb_costs_what_is_read_of_it(hub: RunningHub) -> None:
    size = 100_000_000_000
    blob = VirtualBlob.with_parts(size, {0: b"head", size - 4: b"tail"})
    hub.repo("owner/m", {"model.bin": blob})
    url = hf_hub_url("owner/m", "model.bin")
    meta = get_hf_file_metadata(url)
    assert (meta.size, meta.etag) == (size, "5" * 64)
    for header, data in (("bytes=0-5", b"head\0\0"), (f"bytes={size - 6}-", b"\0\0tail")):
        assert get_session().get(url, headers={"Range": header}).content == data
    assert hub.log.sent(origin="cdn") == 12


def test_safetensors_metadata_is_read_by_range(hub: RunningHub, api: Api) -> None:
    import numpy as np
    from safetensors.numpy import save

    hub.repo("owner/m", {"model.safetensors": save({"w": np.ones((50, 1000), np.float32)})})
    found = api().get_safetensors_metadata("owner/m")
    assert found.parameter_count == {"F32": 50_000}
    assert hub.log.sent(origin="cdn") <= 100_001


def test_raw_is_what_git_stores(hub: RunningHub) -> None:
    hub.repo("owner/m", {"a.txt": "hi", "model.safetensors": WEIGHTS})
    url = f"{hub.endpoint}/owner/m/raw/main"
    assert get_session().get(f"{url}/a.txt").text == "hi"
    pointer = get_session().get(f"{url}/model.safetensors").text
    assert f"oid sha256:{hashlib.sha256(WEIGHTS).hexdigest()}\nsize 1024000\n" in pointer
