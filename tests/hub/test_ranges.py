from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from huggingface_hub import constants

from hfconvert.errors import Exit, UserError
from hfconvert.hub import ranges
from hfconvert.hub.client import connect
from hfconvert.hub.ranges import RemoteFile
from hfconvert.hub.source import pin
from hfconvert.tensors.source import ByteSource, read
from tests.hub.loopback.blobs import VirtualBlob
from tests.hub.loopback.faults import Drop, IgnoreRange, Say, Truncate
from tests.hub.loopback.server import RunningHub

DATA = random.Random(5).randbytes(6_000_000)
Open = Callable[..., RemoteFile]


@pytest.fixture
def remote(hub: RunningHub, tmp_path: Path) -> Open:
    """Open `model.bin` (DATA, unless other content is given) of `owner/m`; after that the log is empty."""

    def make(content: bytes | VirtualBlob = DATA, path: str = "model.bin") -> RemoteFile:
        hub.repo("owner/m", {path: content}, private=True)
        snapshot = pin(connect(token=hub.token()), "owner/m")
        hub.log.clear()
        return RemoteFile(snapshot, path, folder=tmp_path / "spool")

    return make


def test_it_is_a_byte_source(remote: Open) -> None:
    source: ByteSource = remote()
    assert (source.name, source.size) == ("model.bin", len(DATA))
    assert remote().identity.startswith("sha256:")


@pytest.mark.parametrize("way", ["xet", "lfs"])
def test_every_read_gives_the_bytes_there(hub: RunningHub, remote: Open, way: str) -> None:
    file = remote()
    if way == "xet":
        hub.push("owner/m", {"model.bin": DATA}, xet=True)
        file = RemoteFile(pin(connect(token=hub.token()), "owner/m"), "model.bin")
    chance = random.Random(1)
    for _ in range(40):
        start = chance.randrange(len(DATA))
        stop = min(len(DATA), start + chance.choice([0, 1, 8, 30, 5000, 100_000, 3_000_000]))
        assert read(file, start, stop) == DATA[start:stop]
    assert hub.log.leaks == []


def test_a_regular_file_is_read_with_the_token(hub: RunningHub, remote: Open) -> None:
    text = b'{"a": 1}' * 1000
    file = remote(text, "config.json")
    assert read(file, 100, 3000) == text[100:3000]
    assert hub.log.find(origin="cdn") == []
    assert all(record.had_token for record in hub.log.records)


def test_the_address_is_asked_for_once(hub: RunningHub, remote: Open) -> None:
    file = remote()
    for start in range(0, 5_000_000, 1_000_000):
        read(file, start, start + 10)
    assert len(hub.log.find("HEAD")) == 1
    assert len(hub.log.find("GET", origin="cdn")) == 5
    assert not any(record.had_token for record in hub.log.find(origin="cdn"))


def test_what_follows_a_header_is_read_ahead(hub: RunningHub, remote: Open) -> None:
    file = remote()
    for start in range(0, 1_000_000, 100):
        read(file, start, start + 100)
    assert len(hub.log.find("GET")) <= 6
    assert hub.log.sent(origin="cdn") <= 2_100_000


def test_small_reads_here_and_there_cost_little(hub: RunningHub, remote: Open) -> None:
    file = remote()
    for start in range(0, 5_900_000, 200_000):
        read(file, start, start + 30)
    assert hub.log.sent(origin="cdn") <= 64 * 1024 + 30 * 4096


def test_what_was_read_is_not_fetched_again(hub: RunningHub, remote: Open) -> None:
    file = remote()
    read(file, 1000, 20_000)
    sent = hub.log.sent()
    assert read(file, 1500, 19_000) == DATA[1500:19_000]
    assert hub.log.sent() == sent
    file.discard()
    assert file.held_bytes == 0
    assert read(file, 1500, 19_000) == DATA[1500:19_000]
    assert hub.log.sent() > sent


def test_staged_ranges_are_fetched_once_over_several_connections(
    hub: RunningHub, remote: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ranges, "PIECE", 500_000)
    file = remote()
    wanted = [(100, 1_500_000), (3_000_000, 3_000_030), (5_999_990, 6_000_000), (50, 50)]
    file.stage(wanted)
    assert hub.log.sent(origin="cdn") == file.held_bytes == 1_499_900 + 30 + 10
    assert len(hub.log.find("GET", origin="cdn")) == 5
    hub.log.clear()
    for start, stop in wanted:
        assert read(file, start, stop) == DATA[start:stop]
    file.stage([(200, 1_000_000)])
    assert hub.log.records == []
    assert [*(tmp_path / "spool").iterdir()] == []


def test_ranges_that_nearly_touch_are_one_request(hub: RunningHub, remote: Open) -> None:
    file = remote()
    file.stage([(start, start + 100) for start in range(0, 100_000, 1000)])
    assert len(hub.log.find("GET", origin="cdn")) == 1


def test_many_threads_read_at_once(hub: RunningHub, remote: Open) -> None:
    file = remote()
    starts = [random.Random(seed).randrange(5_000_000) for seed in range(60)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda start: read(file, start, start + 50_000), starts))
    assert found == [DATA[start : start + 50_000] for start in starts]


def test_a_file_of_100_gb_costs_what_is_read_of_it(hub: RunningHub, remote: Open) -> None:
    size = 100_000_000_000
    parts = {0: b"head", size // 2: b"middle", size - 4: b"tail"}
    file = remote(VirtualBlob.with_parts(size, parts))
    file.stage([(size // 2, size // 2 + 6)])
    assert read(file, 0, 4) == b"head"
    assert read(file, size // 2, size // 2 + 6) == b"middle"
    assert read(file, size - 4, size) == b"tail"
    assert hub.log.sent(origin="cdn") < 100_000


@pytest.mark.parametrize("start", [0, 5_000_000])
def test_what_breaks_off_goes_on_where_it_ended(
    hub: RunningHub, remote: Open, waits: list[float], start: int
) -> None:
    file = remote()
    hub.faults.add("GET", "/objects/", Drop(after=300_000), times=3)
    file.stage([(start, start + 1_000_000)])
    assert read(file, start, start + 1_000_000) == DATA[start : start + 1_000_000]
    assert hub.log.sent(origin="cdn") == 1_000_000
    assert [int(wait) for wait in waits] == [1, 1, 1]


def test_an_answer_that_is_too_short_is_asked_for_again(hub: RunningHub, remote: Open) -> None:
    file = remote()
    hub.faults.add("GET", "/objects/", Truncate(to=1000))
    assert read(file, 0, 2_000_000) == DATA[:2_000_000]
    assert hub.log.find("GET", origin="cdn")[1].range == "bytes=1000-1999999"


def test_trouble_passes(hub: RunningHub, remote: Open, waits: list[float]) -> None:
    file = remote()
    hub.faults.add("HEAD", "/resolve/", Say(503))
    hub.faults.add("GET", "/objects/", Say(503), times=2)
    hub.faults.add("GET", "/objects/", Drop(), nth=3)
    assert read(file, 0, 100) == DATA[:100]
    assert len(waits) == 4


def test_an_expired_address_is_asked_for_anew(
    hub: RunningHub, remote: Open, waits: list[float]
) -> None:
    file = remote()
    read(file, 0, 100)
    hub.faults.add("GET", "/objects/", Say(403, "Request has expired"))
    assert read(file, 1_000_000, 1_000_100) == DATA[1_000_000:1_000_100]
    assert len(hub.log.find("HEAD")) == 2


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (Say(503, "down"), "the Hub has trouble (503)"),
        (Say(416), "no such part of the file (416)"),
        (Drop(), "cannot be reached, or broke off"),
        (Drop(after=0), "cannot be reached, or broke off"),
        (Truncate(to=0), "the transfer failed"),
        (Say(403), "the address of the file has expired"),
    ],
)
def test_what_fails_for_good_is_told(
    hub: RunningHub, remote: Open, waits: list[float], action: object, words: str
) -> None:
    file = remote()
    hub.faults.add("GET", "/objects/", action, times=None)  # type: ignore[arg-type]  # cases
    with pytest.raises(UserError) as caught:
        read(file, 0, 100)
    assert caught.value.exit is Exit.HUB
    assert words in str(caught.value)
    assert "signature" not in str(caught.value)
    assert "model.bin" in caught.value.problems[0].subject


def test_a_failure_of_one_piece_is_the_failure_of_all(
    hub: RunningHub, remote: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "PIECE", 100_000)
    file = remote()
    hub.faults.add("GET", "/objects/", Say(416), nth=5, times=None)
    with pytest.raises(UserError, match="no such part"):
        file.stage([(0, 5_000_000)])


def test_a_range_that_is_ignored_costs_little_or_is_refused(hub: RunningHub, remote: Open) -> None:
    file = remote()
    hub.faults.add("GET", "/objects/", IgnoreRange(), times=None)
    assert read(file, 1000, 1100) == DATA[1000:1100]
    with pytest.raises(UserError, match="parts of it cannot be read"):
        read(file, 3_000_000, 3_000_100)


def test_a_file_that_was_replaced_is_refused(hub: RunningHub, remote: Open) -> None:
    file = remote()
    headers = {"X-Repo-Commit": "0" * 40, "X-Linked-Etag": '"other"', "X-Linked-Size": "6000000"}
    hub.faults.add("HEAD", "/resolve/", Say(302, headers={**headers, "Location": hub.cdn}))
    with pytest.raises(UserError, match="not what the Hub records"):
        read(file, 0, 10)
    headers["X-Linked-Size"] = "7"
    hub.faults.add("HEAD", "/resolve/", Say(302, headers={**headers, "Location": hub.cdn}))
    with pytest.raises(UserError, match="it has 7 bytes, 6000000 by the Hub's record"):
        read(file, 0, 10)


def test_a_file_of_another_size_in_storage_is_refused(hub: RunningHub, remote: Open) -> None:
    file = remote()
    headers = {"Content-Range": "bytes 0-65535/70000"}
    hub.faults.add("GET", "/objects/", Say(206, body=DATA[:65536], headers=headers))
    with pytest.raises(UserError, match="it has 70000 bytes"):
        read(file, 0, 10)


def test_reads_beyond_the_end_are_faults_of_the_file(remote: Open) -> None:
    file = remote()
    with pytest.raises(UserError, match="ends at byte 6000000") as caught:
        read(file, 5_999_999, 6_000_001)
    assert caught.value.exit is Exit.SOURCE


def test_a_full_disk_is_told(remote: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import errno
    import os

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(UserError, match="the disk is full") as caught:
        remote().stage([(0, 100)])
    assert caught.value.exit is Exit.RESOURCES
    assert caught.value.problems[0].subject == str(tmp_path / "spool")


def test_it_works_at_the_default_timeout(remote: Open) -> None:
    assert constants.HF_HUB_DOWNLOAD_TIMEOUT > 0
    assert read(remote(), 0, 10) == DATA[:10]
