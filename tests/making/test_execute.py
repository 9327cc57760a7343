from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load

from hfconvert.errors import UserError, source_problem
from hfconvert.making import execute as module
from hfconvert.making.execute import Made, copy_files, execute
from hfconvert.making.work import Finished, Journal
from hfconvert.planning.shards import WORKERS, Shard, shard_files
from hfconvert.tensors.checkpoint import found
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import LazyTensor, TensorSpec
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.source import LocalFile
from hfconvert.tensors.tally import Loss, Tally

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(eq=False)
class Memory:
    """A source in memory, which counts reads and fails at the one that it is told."""

    data: bytes
    name: str = "memory"
    fails_at: int = -1
    reads: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.data)

    def readinto(self, buffer: memoryview, offset: int) -> None:
        self.reads.append(buffer.nbytes)
        if len(self.reads) - 1 == self.fails_at:
            raise UserError(source_problem("the file changed", why="", do="", subject=self.name))
        buffer[:] = self.data[offset : offset + buffer.nbytes]

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        raise AssertionError("nothing here is remote")


def _arrays() -> Arrays:
    """Large, small, empty and scalar tensors of several widths."""
    random = np.random.default_rng(5)
    shapes = {"big": (300, 70), "wide": (2, 9000), "row": (11,), "none": (0, 3), "scalar": ()}
    arrays: Arrays = {
        f"{name}.{dtype}": random.integers(0, 255, shape).astype(dtype)
        for name, shape in shapes.items()
        for dtype in ("u1", "<u2", "<f4", "<i8")
    }
    return arrays | {f"tiny.{i}": np.full(3, i, "<f4") for i in range(50)}


CODES = {"uint8": "U8", "uint16": "U16", "float32": "F32", "int64": "I64"}


def _shards(arrays: Arrays, limit: int = 10**9, **source: Any) -> tuple[tuple[Shard, ...], Memory]:
    """A plan over those arrays, which lie one after the other in a source; every third one transposed."""
    data, tensors = b"", dict[str, tuple[int, np.ndarray[Any, Any]]]()
    for name, array in arrays.items():
        tensors[name] = (len(data), array)
        data += array.tobytes()
    memory = Memory(data, **source)
    leaves: dict[str, LazyTensor] = {}
    for number, (name, (start, array)) in enumerate(tensors.items()):
        turned = array.T if number % 3 == 0 else array
        strides = tuple(stride // array.itemsize for stride in turned.strides)
        spec = TensorSpec(BY_CODE[CODES[array.dtype.name]], turned.shape)
        leaves[name] = Leaf.strided(spec, memory, start, strides)
    return shard_files(found(leaves), "model", limit, {"format": "pt"})[0], memory


def _expected(arrays: Arrays) -> Arrays:
    return {
        name: array.T if number % 3 == 0 else array
        for number, (name, array) in enumerate(arrays.items())
    }


def _run(
    shards: Sequence[Shard], folder: Path, journal: Journal | None = None, **options: Any
) -> list[Made]:
    journal = journal or Journal(folder / "journal")
    advance: Callable[[int], object] = options.get("advance", lambda _: None)
    return list(execute(shards, folder, journal, options.get("tally", Tally()), advance))


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "journal"}


@pytest.fixture
def plain(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of the one shard of all arrays, as the defaults make it."""
    folder = tmp_path_factory.mktemp("plain")
    _run(_shards(_arrays())[0], folder)
    return (folder / "model.safetensors").read_bytes()


def test_the_file_is_what_the_safetensors_library_reads(plain: bytes) -> None:
    read = load(plain)
    expected = _expected(_arrays())
    assert read.keys() == expected.keys()
    for name, array in expected.items():
        assert read[name].dtype == array.dtype
        assert np.array_equal(read[name], array)


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("block", [1, 1000, 4 << 20])
def test_neither_workers_nor_block_change_a_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: bytes, workers: int, block: int
) -> None:
    monkeypatch.setattr(module, "WORKERS", workers)
    monkeypatch.setattr(module, "block_of", lambda _: block)
    arrays = _arrays() if block > 1 else {k: v for k, v in _arrays().items() if v.size < 100}
    (made,) = _run(_shards(arrays)[0], tmp_path)
    content = (tmp_path / "model.safetensors").read_bytes()
    assert made.sha256 == hashlib.sha256(content).hexdigest()
    if block > 1:
        assert content == plain


def test_short_writes_are_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: bytes
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, view, at: pwrite(fd, view[:997], at))
    _run(_shards(_arrays())[0], tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == plain


@given(limit=st.integers(1, 3000))
def test_shards_together_hold_every_tensor(
    tmp_path_factory: pytest.TempPathFactory, limit: int
) -> None:
    folder = tmp_path_factory.mktemp("limit")
    arrays = {name: array for name, array in _arrays().items() if array.size < 100}
    shards, _ = _shards(arrays, limit)
    mades = _run(shards, folder)
    read: Arrays = {}
    for made in mades:
        content = (folder / made.shard.file).read_bytes()
        assert made.sha256 == hashlib.sha256(content).hexdigest()
        assert len(content) == made.shard.size
        read |= load(content)
    assert {name: array.tobytes() for name, array in read.items()} == {
        name: array.tobytes() for name, array in _expected(arrays).items()
    }


def test_small_tensors_are_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[int] = []
    pwrite = os.pwrite

    def counting(descriptor: int, view: memoryview, offset: int) -> int:
        writes.append(len(view))
        return pwrite(descriptor, view, offset)

    monkeypatch.setattr(os, "pwrite", counting)
    _run(_shards({f"w.{i}": np.full(4, i, "<f4") for i in range(1000)})[0], tmp_path)
    assert sorted(writes) == [16_000, max(writes)], "the header, and all the data at once"


def test_progress_counts_every_byte_of_data(tmp_path: Path) -> None:
    counted: list[int] = []
    shards, _ = _shards(_arrays(), 20_000)
    _run(shards, tmp_path, advance=counted.append)
    assert sum(counted) == sum(shard.size - len(shard.header) for shard in shards)


def test_a_shard_has_its_name_only_once_it_is_accepted(tmp_path: Path) -> None:
    shards, _ = _shards(_arrays(), 20_000)
    journal = Journal(tmp_path / "journal")
    running = execute(shards, tmp_path, journal, Tally(), lambda _: None)
    first = next(running)
    assert first.path == tmp_path / f"{first.shard.file}.part"
    begun = {f"{shard.file}.part" for shard in shards[:WORKERS]}
    assert set(_files(tmp_path)) == begun
    running.close()
    assert set(_files(tmp_path)) == begun
    assert not journal.path.exists()


def test_no_more_shards_are_begun_than_are_made_together(tmp_path: Path) -> None:
    shards, _ = _shards(_arrays(), 20_000)
    assert len(shards) > 3
    journal = Journal(tmp_path / "journal")
    with closing(
        execute(shards, tmp_path, journal, Tally(), lambda _: None, together=1)
    ) as running:
        for number, made in enumerate(running):
            assert made.path.is_file()
            # by names alone: the shards before it get theirs meanwhile, on another thread
            begun = {path.name.removesuffix(".part") for path in tmp_path.iterdir()}
            assert len(begun - {"journal"}) <= number + 1


def test_a_run_that_is_closed_settles_what_was_accepted(tmp_path: Path) -> None:
    shards, _ = _shards(_arrays(), 20_000)
    running = execute(shards, tmp_path, Journal(tmp_path / "journal"), Tally(), lambda _: None)
    first, second = next(running), next(running)
    running.close()
    assert set(_files(tmp_path)) == {first.shard.file, f"{second.shard.file}.part"}
    assert first.shard.file in (tmp_path / "journal").read_text()


@pytest.mark.parametrize("fails_at", [0, 7, 40])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_a_reader_that_fails_stops_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int, workers: int
) -> None:
    monkeypatch.setattr(module, "WORKERS", workers)
    monkeypatch.setattr(module, "block_of", lambda _: 500)
    shards, memory = _shards(_arrays(), fails_at=fails_at)
    before = threading.active_count()
    with pytest.raises(UserError, match="the file changed"):
        _run(shards, tmp_path)
    assert all(name.endswith(".part") for name in _files(tmp_path))
    assert threading.active_count() == before
    assert len(memory.reads) <= fails_at + 1 + 8 * workers, "the others stop soon"


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_a_disk_that_fails_stops_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        _run(_shards(_arrays(), 20_000)[0], tmp_path)
    assert all(name.endswith(".part") for name in _files(tmp_path))


def test_what_an_earlier_run_finished_is_taken_as_it_is(tmp_path: Path) -> None:
    shards, _ = _shards(_arrays(), 20_000)
    journal = Journal(tmp_path / "journal")
    first = _run(shards, tmp_path, journal)
    before = _files(tmp_path)
    again = Journal(tmp_path / "journal", {one.file: one for one in _finished(tmp_path)})
    shards, memory = _shards(_arrays(), 20_000)
    counted: list[int] = []
    second = _run(shards, tmp_path, again, advance=counted.append)
    assert memory.reads == []
    assert [made.sha256 for made in second] == [made.sha256 for made in first]
    assert [made.path for made in second] == [tmp_path / shard.file for shard in shards]
    assert sum(counted) == sum(shard.size for shard in shards)
    assert _files(tmp_path) == before


def _finished(folder: Path) -> list[Finished]:
    lines = (folder / "journal").read_text().splitlines()
    return [one for line in lines if (one := Finished.of(json.loads(line)))]


def test_what_casts_lost_belongs_to_its_shard(tmp_path: Path) -> None:
    tally = Tally()
    shards, _ = _shards({"a": np.ones(4, "<f4"), "b": np.ones(4, "<f4")}, 16)
    running = execute(shards, tmp_path, Journal(tmp_path / "journal"), tally, lambda _: None)
    tally.add("a", Loss(1, 0, 4))
    assert next(running).losses == {"a": Loss(1, 0, 4)}
    tally.add("b", Loss(0, 2, 4))
    assert next(running).losses == {"b": Loss(0, 2, 4)}
    assert list(running) == []
    assert {one.file: one.losses for one in _finished(tmp_path)} == {
        "model-00001-of-00002.safetensors": {"a": Loss(1, 0, 4)},
        "model-00002-of-00002.safetensors": {"b": Loss(0, 2, 4)},
    }


def test_files_are_as_readable_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        _run(_shards({"a": np.ones(4, "<f4")})[0], tmp_path)
    finally:
        os.umask(before)
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == 0o640


def test_side_files_are_copied_byte_for_byte(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "out"
    (source / "deep" / "er").mkdir(parents=True)
    folder.mkdir()
    contents = {
        "config.json": b"{}",
        "empty": b"",
        "deep/er/x.bin": os.urandom(module.COPY + 17),
    }
    for name, content in contents.items():
        (source / name).write_bytes(content)
    files = [LocalFile.of(source / name, name) for name in contents]
    assert list(copy_files(files, folder)) == [
        (name, len(content), hashlib.sha256(content).hexdigest())
        for name, content in contents.items()
    ]
    assert {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    } == contents


def test_a_side_file_that_became_shorter_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(100))
    file = LocalFile.of(tmp_path / "x", "y")
    (tmp_path / "x").write_bytes(bytes(50))
    with pytest.raises(UserError, match="ends at byte 50"):
        list(copy_files([file], tmp_path))
    assert not (tmp_path / "y").exists()
