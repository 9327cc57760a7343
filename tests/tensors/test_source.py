from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.tensors.source import LocalFile, read

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "weights.bin"
    file.write_bytes(CONTENT)
    return file


def test_any_range_is_read_exactly(path: Path) -> None:
    file = LocalFile.of(path)
    assert (file.name, file.size) == ("weights.bin", len(CONTENT))
    for start, stop in [(0, 0), (0, 10), (5, 300), (len(CONTENT) - 1, len(CONTENT))]:
        assert read(file, start, stop) == CONTENT[start:stop]


def test_short_reads_are_continued(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, views, at: preadv(fd, [views[0][:7]], at))
    assert read(LocalFile.of(path), 3, 5000) == CONTENT[3:5000]


def test_a_file_that_became_shorter_is_an_error_and_no_signal(path: Path) -> None:
    file = LocalFile.of(path)
    read(file, 0, 10)
    path.write_bytes(CONTENT[:100])
    with pytest.raises(UserError, match="ends at byte 100") as caught:
        read(file, 50, 200)
    assert caught.value.exit == Exit.SOURCE
    assert caught.value.problems[0].subject == str(path)


def test_a_file_that_went_away_before_the_first_read(path: Path) -> None:
    file = LocalFile.of(path)
    path.unlink()
    with pytest.raises(UserError, match="cannot be read: No such file") as caught:
        read(file, 0, 10)
    assert caught.value.exit == Exit.SOURCE


def test_an_error_of_the_disk_is_an_error_of_the_source(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(UserError, match="Input/output error") as caught:
        read(LocalFile.of(path), 0, 10)
    assert caught.value.exit == Exit.SOURCE


def test_a_name_of_its_own(path: Path) -> None:
    assert LocalFile.of(path, "sub/weights.bin").name == "sub/weights.bin"


def test_changes_are_noticed(path: Path) -> None:
    file = LocalFile.of(path)
    file.check_unchanged()
    os.utime(path, ns=(0, file.mtime_ns + 1))
    with pytest.raises(UserError, match="modification time") as caught:
        file.check_unchanged()
    assert caught.value.exit == Exit.SOURCE
    path.unlink()
    with pytest.raises(UserError, match="changed while it was read"):
        file.check_unchanged()


def _read_by_four(file: LocalFile) -> bytes:
    with ThreadPoolExecutor(4) as pool:
        return b"".join(pool.map(lambda at: bytes(read(file, at, at + 9)), range(0, 9000, 9)))


def test_threads_may_read_at_once_through_one_descriptor(path: Path) -> None:
    file = LocalFile.of(path)
    assert _read_by_four(file) == CONTENT[:9000]
    (descriptor,) = file._opened
    assert os.fstat(descriptor).st_ino == path.stat().st_ino
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_staging_a_local_file_does_nothing(path: Path) -> None:
    LocalFile.of(path).stage([(0, 10)])
    assert path.read_bytes() == CONTENT


def test_the_file_is_never_opened_for_writing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    real = os.open

    def spy(path: Path, flags: int) -> int:
        opened.append(flags)
        return real(path, flags)

    monkeypatch.setattr(os, "open", spy)
    read(LocalFile.of(path), 0, 10)
    assert opened == [os.O_RDONLY | os.O_CLOEXEC]
