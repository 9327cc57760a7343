"""Where results lie that are only made to be published."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from hfconvert.workplace import (
    KEPT_SECONDS,
    one_at_a_time,
    place_for,
    remove,
    remove_old,
    workplace,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "hfconvert"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"HF_HOME": "/x/y"}, "/x/y/hfconvert"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hfconvert"),
        ({"HOME": "/h"}, "/h/.cache/huggingface/hfconvert"),
    ],
)
def test_it_is_where_the_cache_is(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name in ("HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(workplace()) == expected


def test_every_plan_has_a_place_of_its_own(home: Path) -> None:
    places = {place_for(repo, key) for repo in ("a/b", "a/c") for key in ("1" * 64, "2" * 64)}
    assert len(places) == 4
    assert {place.parent for place in places} == {home}


def test_what_nobody_came_back_for_goes_and_what_is_held_stays(home: Path) -> None:
    for name in ("old", ".old.hfconvert", "held", "new"):
        (home / name).mkdir(parents=True)
        (home / name / "model.safetensors").write_bytes(b"x")
    for name in ("old", ".old.hfconvert", "held"):
        os.utime(home / name, (1000, 1000))
    os.utime(home / "new", (2000, 2000))
    descriptor = os.open(home / "held", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    remove_old(now=1000 + KEPT_SECONDS + 1)
    os.close(descriptor)
    assert {path.name for path in home.iterdir()} == {"held", "new"}
    remove(home / "new")
    remove(home / "absent")
    assert {path.name for path in home.iterdir()} == {"held"}


def test_nothing_is_removed_where_nothing_is(home: Path) -> None:
    remove_old()
    assert not home.exists()


def test_a_repository_is_published_to_by_one_at_a_time(home: Path) -> None:
    with one_at_a_time("owner/m"):
        descriptor = os.open(home / "owner--m.lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with one_at_a_time("owner/other"):
            pass
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
