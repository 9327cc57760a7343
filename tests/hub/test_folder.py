from __future__ import annotations

from pathlib import Path

import pytest

from hfconvert.errors import UserError
from hfconvert.hub.client import connect
from hfconvert.hub.folder import RemoteFolder
from hfconvert.hub.source import Snapshot, pin
from hfconvert.tensors.source import read
from tests.hub.loopback.server import RunningHub

FILES = {"config.json": "{}", "unet/config.json": "[1]", "unet/b.bin": "b" * 99, "unet/in/c": "c"}


@pytest.fixture
def snapshot(hub: RunningHub) -> Snapshot:
    hub.repo("owner/m", FILES)
    return pin(connect(), "owner/m")


def test_the_root_and_a_folder_have_their_own_names(snapshot: Snapshot) -> None:
    assert RemoteFolder(snapshot).names() == ["config.json"]
    unet = RemoteFolder(snapshot, "unet")
    assert unet.names() == ["b.bin", "config.json"]
    assert str(unet) == f"owner/m@{snapshot.commit[:12]}/unet"
    assert unet.record("b.bin").size == 99
    with pytest.raises(UserError, match="no such file"):
        unet.record("a.bin")


def test_files_come_whole_or_by_ranges(hub: RunningHub, snapshot: Snapshot, tmp_path: Path) -> None:
    unet = RemoteFolder(snapshot, "unet", spool=tmp_path)
    assert read(unet.open("b.bin"), 5, 9) == b"bbbb"
    assert unet.open("b.bin") is unet.open("b.bin")
    assert unet.fetch("config.json").read_text() == "[1]"
    local = unet.fetch_all(["b.bin", "in/c"])
    assert (local / "b.bin").read_text() == "b" * 99
    assert (local / "in/c").read_text() == "c"
    assert local == unet.fetch("config.json").parent


def test_nothing_is_asked_of_the_hub_for_names(hub: RunningHub, snapshot: Snapshot) -> None:
    hub.log.clear()
    RemoteFolder(snapshot).names()
    RemoteFolder(snapshot).open("config.json")
    assert hub.log.records == []
