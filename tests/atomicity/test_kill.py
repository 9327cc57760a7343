"""kill -9 at any moment: no final name holds a partial file, the source stays, the next run ends it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Any]
Scene = Any  # of conftest.py
MODES = ["kill-before", "kill-after", "kill-torn"]
RUN = ("run", "recipe.yaml")
ROOT = Path(__file__).parents[2]


def _finishes(victims: Start, scene: Scene) -> None:
    scene.check_nothing_is_half_made()
    ended = victims(scene.folder, *RUN, "--json")
    assert ended.code == 0, ended.stderr
    assert json.loads(ended.stdout)["status"] in {"converted", "up-to-date"}
    scene.check_complete()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("share", range(0, 100, 14))
def test_a_kill_at_one_act(victims: Start, scene: Scene, mode: str, share: int) -> None:
    at = scene.acts * share // 100
    assert victims(scene.folder, *RUN, what=mode, at=at).killed
    _finishes(victims, scene)


@pytest.mark.parametrize("from_end", range(1, 9))
def test_a_kill_at_one_of_the_last_acts(victims: Start, scene: Scene, from_end: int) -> None:
    assert victims(scene.folder, *RUN, what="kill-before", at=scene.acts - from_end).killed
    _finishes(victims, scene)


@pytest.mark.parametrize("at", range(6))
def test_a_kill_at_one_of_the_first_acts(victims: Start, scene: Scene, at: int) -> None:
    assert victims(scene.folder, *RUN, what="kill-after", at=at).killed
    _finishes(victims, scene)


def test_one_kill_after_another(victims: Start, scene: Scene) -> None:
    kills = 0
    for at in (9, 14, 3, 20, 7, 12):
        ended = victims(scene.folder, *RUN, what="kill-torn", at=at)
        kills += ended.killed
        scene.check_nothing_is_half_made()
    assert kills > 2
    _finishes(victims, scene)


def test_what_was_complete_is_not_made_again(victims: Start, scene: Scene) -> None:
    assert victims(scene.folder, *RUN, what="kill-before", at=scene.acts * 3 // 4).killed
    kept = {path.name for path in scene.work.glob("*.safetensors")}
    assert kept
    ended = victims(scene.folder, *RUN)
    assert ended.code == 0, ended.stderr
    assert ended.writes < scene.writes
    scene.check_complete()


@pytest.mark.parametrize("change", ["altered", "deleted", "longer"])
def test_a_complete_shard_that_was_spoilt_is_made_again(
    victims: Start, scene: Scene, change: str
) -> None:
    assert victims(scene.folder, *RUN, what="kill-before", at=scene.acts * 3 // 4).killed
    path = min(scene.work.glob("*.safetensors"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    if change == "deleted":
        path.unlink()
    else:
        path.write_bytes(content if change == "altered" else content + b"x")
    ended = victims(scene.folder, *RUN)
    assert ended.code == 0, ended.stderr
    scene.check_complete()


def test_another_plan_begins_anew(victims: Start, scene: Scene) -> None:
    assert victims(scene.folder, *RUN, what="kill-before", at=scene.acts * 3 // 4).killed
    ended = victims(scene.folder, *RUN, "--set", "output.max_shard_size=20MB")
    assert ended.code == 0, ended.stderr
    assert [path.name for path in scene.out.glob("*.safetensors")] == ["model.safetensors"]
    assert not scene.work.exists()


def test_an_old_output_is_never_touched(victims: Start, scene: Scene) -> None:
    scene.out.mkdir()
    (scene.out / "model.safetensors").write_bytes(b"of another time")
    ended = victims(scene.folder, *RUN)
    assert ended.code == 2
    assert ended.acts == 0
    assert (scene.out / "model.safetensors").read_bytes() == b"of another time"


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_kill_at_every_act(victims: Start, scene: Scene, mode: str) -> None:
    for at in range(scene.acts):
        victims(scene.folder, *RUN, what=mode, at=at)
        _finishes(victims, scene)
        scene.clear()


@pytest.mark.slow
def test_kills_at_random_acts_until_it_is_done(victims: Start, scene: Scene) -> None:
    chance = random.Random(11)
    for _ in range(60):
        while not scene.out.exists():
            at = chance.randrange(2 * scene.acts)
            victims(scene.folder, *RUN, what=chance.choice(MODES), at=at)
            scene.check_nothing_is_half_made()
        _finishes(victims, scene)
        scene.clear()


@pytest.mark.slow
def test_kills_of_the_real_command_at_random_times(
    victims: Start, make_scene: Callable[..., Scene], tmp_path: Path
) -> None:
    scene = make_scene(tmp_path, 5, 10, 1000)
    chance = random.Random(12)
    command = [sys.executable, "-m", "hfconvert", *RUN]
    killed = 0
    for _ in range(40):
        process = subprocess.Popen(
            command,
            cwd=scene.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert process.wait(timeout=chance.uniform(0.4, 1.6)) == 0
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
        scene.check_nothing_is_half_made()
        if chance.random() < 0.3:
            _finishes(victims, scene)
            scene.clear()
    assert killed > 5
    _finishes(victims, scene)
