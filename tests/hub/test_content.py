from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from hfconvert.hub.content import Content, matches


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"some content" * 100_000)
    return path


def test_large_files_are_known_by_their_sha256(file: Path) -> None:
    content = Content("sha256", hashlib.sha256(file.read_bytes()).hexdigest())
    assert matches(file, 1_200_000, content)
    assert str(content).startswith("sha256:")
    file.write_bytes(b"Some content" + file.read_bytes()[12:])
    assert not matches(file, 1_200_000, content)


def test_small_files_are_known_by_the_id_of_git(file: Path) -> None:
    command = ["git", "hash-object", "--no-filters", str(file)]
    content = Content("git", subprocess.check_output(command, text=True).strip())
    assert matches(file, 1_200_000, content)
    assert not matches(file, 1_200_001, content)


def test_what_is_not_there_does_not_match(tmp_path: Path) -> None:
    assert not matches(tmp_path / "absent", 0, Content("git", ""))
    assert not matches(tmp_path, 0, Content("git", ""))
