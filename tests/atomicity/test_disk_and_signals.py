"""A disk that is full, and signals: exit codes of the contract, and nothing half made."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Any]
Scene = Any  # of conftest.py
RUN = ("run", "recipe.yaml", "--json")
FULL, INTERRUPTED = 5, 130


def _message(ended: Any) -> str:
    document = json.loads(ended.stdout)
    assert document["status"] == "failed"
    (finding,) = document["findings"]
    assert isinstance(finding["message"], str)
    return finding["message"]


@pytest.mark.parametrize("share", [5, 30, 60, 95])
def test_a_disk_that_becomes_full(victims: Start, scene: Scene, share: int) -> None:
    ended = victims(scene.folder, *RUN, what="full", at=scene.acts * share // 100)
    assert ended.code == FULL, ended.stderr
    assert "No space left on device" in _message(ended)
    assert not scene.out.exists()
    assert not scene.work.exists()
    scene.check_nothing_is_half_made()


@pytest.mark.parametrize("limit", [50, 10_000, 1_500_000, 2_000_000])
def test_a_limit_on_the_size_of_files(victims: Start, scene: Scene, limit: int) -> None:
    ended = victims(scene.folder, *RUN, limit=limit)
    assert ended.code == FULL, ended.stderr
    assert not scene.out.exists()
    assert not scene.work.exists()
    scene.check_nothing_is_half_made()


@pytest.fixture
def small_disk(tmp_path: Path, scene: Scene) -> Iterator[Path]:
    """A file system of six megabytes where one can be mounted, else one that is as large as its disk."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=6m", "hfconvert-test", str(disk)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    yield disk
    if mounted:
        subprocess.run(["umount", str(disk)], check=True)


def _room(disk: Path, scene: Scene) -> dict[str, Any]:
    """What makes the disk too small: itself, or a limit where nothing could be mounted."""
    return {} if shutil.disk_usage(disk).total < 7 << 20 else {"limit": 1_500_000}


def test_a_disk_that_is_too_small_is_found_before_the_first_byte(
    victims: Start, scene: Scene, small_disk: Path
) -> None:
    room = _room(small_disk, scene)
    ended = victims(scene.folder, *RUN, "--output", str(small_disk / "out"), **room)
    assert ended.code == FULL, ended.stderr
    assert room or "of disk, and" in _message(ended)
    assert room or ended.writes == 0
    assert list(small_disk.iterdir()) == []


def test_a_disk_that_another_fills_meanwhile(
    victims: Start, scene: Scene, small_disk: Path
) -> None:
    room = _room(small_disk, scene)
    output = str(small_disk / "out")
    ended = victims(scene.folder, *RUN, "--output", output, blind=True, **room)
    assert ended.code == FULL, ended.stderr
    assert "the disk takes no more" in _message(ended)
    assert ended.writes > 0
    assert list(small_disk.iterdir()) == []
    scene.check_nothing_is_half_made()


@pytest.mark.parametrize(
    ("signal", "share"),
    [*product(["SIGTERM", "SIGINT"], [0, 20, 50, 80, 90]), ("SIGHUP", 50)],
)
def test_a_signal_keeps_what_is_complete(
    victims: Start, scene: Scene, signal: str, share: int
) -> None:
    ended = victims(scene.folder, *RUN, what=signal, at=scene.acts * share // 100)
    assert ended.code == INTERRUPTED, ended.stderr
    assert "run again to go on" in ended.stderr
    assert "Traceback" not in ended.stderr
    scene.check_nothing_is_half_made()
    again = victims(scene.folder, *RUN)
    assert again.code == 0, again.stderr
    assert share < 50 or again.writes < scene.writes
    scene.check_complete()


def test_a_mounted_output_is_refused_before_any_work(
    victims: Start, scene: Scene, small_disk: Path
) -> None:
    if _room(small_disk, scene):
        (small_disk / "x").write_text("not empty either")
    ended = victims(scene.folder, *RUN, "--output", str(small_disk))
    assert ended.code == 2, ended.stderr
    assert ended.writes == 0


@pytest.mark.slow
def test_a_disk_that_becomes_full_at_every_act(victims: Start, scene: Scene) -> None:
    for at in range(scene.acts - 1):
        ended = victims(scene.folder, *RUN, what="full", at=at)
        if ended.code == 0:
            scene.check_complete()
            scene.clear()
            continue
        assert ended.code == FULL, (at, ended.stderr)
        assert not scene.work.exists()
        scene.check_nothing_is_half_made()


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["SIGTERM", "SIGINT"])
def test_a_signal_at_every_act(victims: Start, scene: Scene, signal: str) -> None:
    for at in range(scene.acts):
        ended = victims(scene.folder, *RUN, what=signal, at=at)
        assert ended.code in {0, INTERRUPTED}, (at, ended.stderr)
        assert "Traceback" not in ended.stderr
        scene.check_nothing_is_half_made()
        if at % 7 == 0:
            assert victims(scene.folder, *RUN).code == 0
            scene.check_complete()
            scene.clear()
