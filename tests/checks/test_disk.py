from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.checks import disk, written
from hfconvert.checks.disk import DiskFile
from hfconvert.checks.tensors import Compared, compare_file
from hfconvert.errors import UserError
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.header import write_header
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.pages import PAGE
from hfconvert.tensors.source import LocalFile

SIZE = 30 * PAGE + 321
CONTENT = random.Random(5).randbytes(SIZE)
DIRECT = getattr(os, "O_DIRECT", 0)


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "STRETCH_BYTES", 3 * PAGE)
    monkeypatch.setattr(disk, "FIRST_BYTES", PAGE)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("disk") / "written"
    file.write_bytes(CONTENT)
    return file


def stretches(path: Path, start: int, size: int, unit: int = 1) -> list[bytes]:
    with closing(DiskFile(path, "written")) as opened:
        return [bytes(stretch) for stretch in opened.stretches(start, size, unit)]


@given(st.integers(0, SIZE), st.integers(0, SIZE), st.sampled_from([1, 2, 8]))
def test_stretches_are_the_bytes_in_order(path: Path, start: int, size: int, unit: int) -> None:
    size = min(size, SIZE - start) // unit * unit
    found = stretches(path, start, size, unit)
    assert b"".join(found) == CONTENT[start : start + size]
    assert all(len(stretch) % unit == 0 for stretch in found)
    assert max(map(len, found), default=0) <= 3 * PAGE


@pytest.mark.skipif(not DIRECT, reason="the system has no O_DIRECT")
def test_whole_pages_come_from_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_open, real_preadv = os.open, os.preadv
    past_cache: set[int] = set()
    reads: list[tuple[int, int]] = []

    def opened(name: Any, flags: int, *rest: Any) -> int:
        descriptor = real_open(name, flags & ~DIRECT, *rest)  # any file system will do
        if flags & DIRECT:
            past_cache.add(descriptor)
        return descriptor

    def read(descriptor: int, buffers: Sequence[Any], offset: int) -> int:
        if descriptor in past_cache:
            reads.append((offset, buffers[0].nbytes))
        return real_preadv(descriptor, buffers, offset)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "preadv", read)
    assert b"".join(stretches(path, 100, 9 * PAGE)) == CONTENT[100 : 100 + 9 * PAGE]
    assert sum(size for _, size in reads) >= 9 * PAGE
    assert all(offset % PAGE == 0 and size % PAGE == 0 for offset, size in reads)


@pytest.mark.parametrize("refuses", ["open", "preadv"])
def test_a_file_system_that_refuses_is_read_the_usual_way(
    path: Path, monkeypatch: pytest.MonkeyPatch, refuses: str
) -> None:
    real_open, real_preadv = os.open, os.preadv
    past_cache: set[int] = set()

    def opened(name: Any, flags: int, *rest: Any) -> int:
        if not DIRECT or not flags & DIRECT:
            return real_open(name, flags, *rest)
        if refuses == "open":
            raise OSError(22, "Invalid argument")
        past_cache.add(descriptor := real_open(name, flags & ~DIRECT, *rest))
        return descriptor

    def read(descriptor: int, buffers: Sequence[Any], offset: int) -> int:
        if descriptor in past_cache:
            raise OSError(22, "Invalid argument")
        return real_preadv(descriptor, buffers, offset)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "preadv", read)
    assert b"".join(stretches(path, 7, SIZE - 7)) == CONTENT[7:]


def test_a_file_that_became_shorter_is_said(tmp_path: Path) -> None:
    file = tmp_path / "written"
    file.write_bytes(CONTENT)
    with closing(DiskFile(file, "written")) as opened:
        os.truncate(file, 11 * PAGE)
        with pytest.raises(UserError, match="it ends at byte 45056"):
            list(opened.stretches(0, SIZE, 1))


def test_what_is_left_in_the_middle_can_be_closed(path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir())) if descriptors.is_dir() else 0
    with closing(DiskFile(path, "written")) as opened:
        assert bytes(next(opened.stretches(0, SIZE, 1))) == CONTENT[:PAGE]
    del opened
    after = len(list(descriptors.iterdir())) if descriptors.is_dir() else 0
    assert after == before


def test_stretches_are_read_ahead(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, begun = DiskFile._read, []

    def read(file: DiskFile, memory: memoryview, start: int, size: int) -> memoryview:
        begun.append(start)
        return real(file, memory, start, size)

    monkeypatch.setattr(DiskFile, "_read", read)
    with closing(DiskFile(path, "written")) as opened:
        next(opened.stretches(0, 10 * PAGE, 1))
    assert sorted(begun) == [0, PAGE, 4 * PAGE]  # `close` waited for those that were begun


def written_after(change: Callable[[Path], object], tmp_path: Path) -> Compared:
    """What comes of comparing a file that changes once its header was read."""
    values = np.arange(5 * PAGE, dtype=np.float32)
    (tmp_path / "source").write_bytes(values.tobytes())
    spec = TensorSpec(BY_CODE["F32"], values.shape)
    tensor = Leaf.packed(spec, LocalFile.of(tmp_path / "source"), 0)
    file = tmp_path / "written"
    file.write_bytes(write_header([("w", spec)], {}) + values.tobytes())
    real = written.header_of

    def header_of(path: Path, name: str) -> Any:
        header = real(path, name)
        change(path)
        return header

    with mock.patch("hfconvert.checks.tensors.header_of", header_of):
        return compare_file(file, "written", {"w": tensor})


@pytest.mark.parametrize("lost", [1, 3, 4, PAGE, 2 * PAGE + 5, 4 * 5 * PAGE])
def test_a_file_that_became_shorter_after_its_header_was_read_never_passes(
    tmp_path: Path, lost: int
) -> None:
    with pytest.raises(UserError, match="it ends at byte"):
        written_after(lambda file: os.truncate(file, file.stat().st_size - lost), tmp_path)


def test_a_file_that_went_away_or_is_none_any_longer_is_said(tmp_path: Path) -> None:
    def to_pipe(file: Path) -> None:
        file.unlink()
        os.mkfifo(file)

    for number, change in enumerate([lambda file: file.unlink(), to_pipe]):
        (folder := tmp_path / str(number)).mkdir()
        (said,) = written_after(change, folder).differences
        assert said.startswith("written cannot be opened: ")
