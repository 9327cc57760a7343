"""A result is made, then spoilt in one way; the check that is there for it has to fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.checks.dtypes import check_dtypes
from hfconvert.checks.names import check_names
from hfconvert.checks.result import Check
from hfconvert.checks.tensors import NOTHING, compare_file, tensors_check
from hfconvert.checks.ties import Restored
from hfconvert.checks.written import Written, open_written
from hfconvert.making.execute import execute
from hfconvert.making.work import Journal
from hfconvert.planning.shards import Shard, shard_files
from hfconvert.tensors.checkpoint import found
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import LazyTensor, Mesh, Place, TensorSpec
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.source import LocalFile
from hfconvert.tensors.tally import Tally

Make = Callable[..., Any]
SHAPE = (40, 30)


@dataclass(frozen=True)
class Result:
    """A result in a folder, and what it was made from."""

    folder: Path
    shards: tuple[Shard, ...]
    tensors: Mapping[str, LazyTensor]
    index: Path

    @property
    def files(self) -> dict[str, Written]:
        names = (shard.file for shard in self.shards)
        return {name: open_written(self.folder / name, name) for name in names}

    def names(self, ties: tuple[Restored, ...] = (), config: Path | None = None) -> Check:
        expected = {
            placed.name: (shard.file, placed.entry.tensor.spec)
            for shard in self.shards
            for placed in shard.tensors
        }
        return check_names(expected, self.files, self.index, ties, config)

    def values(self) -> Check:
        compared = NOTHING
        for shard in self.shards:
            part = {placed.name: placed.entry.tensor for placed in shard.tensors}
            compared += compare_file(self.folder / shard.file, shard.file, part)
        return tensors_check(compared, len(self.tensors))

    def dtypes(self) -> Check:
        codes = {name: tensor.spec.dtype.code for name, tensor in self.tensors.items()}
        return check_dtypes(self.files.values(), codes, codes, {})


def _made(folder: Path) -> Result:
    """Two shards: packed, transposed, expanded and narrow tensors of one source file."""
    path = folder / "source.bin"
    path.write_bytes(np.random.default_rng(1).bytes(20_000))
    source = LocalFile.of(path)
    f32, u8 = BY_CODE["F32"], BY_CODE["U8"]
    tensors: dict[str, LazyTensor] = {
        "packed": Leaf.packed(TensorSpec(f32, SHAPE), source, 4),
        "turned": Leaf.strided(TensorSpec(f32, SHAPE), source, 8, (1, 40)),
        "sliced": Leaf.strided(TensorSpec(f32, (20, 10)), source, 12, (62, 3)),
        "spread": Leaf.strided(TensorSpec(f32, (9, 4)), source, 16, (0, 1)),
        "scalar": Leaf.packed(TensorSpec(f32, ()), source, 16),
        "narrow": Leaf.packed(TensorSpec(BY_CODE["F4"], (8, 8)), source, 20),
        "bytes": Leaf.strided(TensorSpec(u8, (7, 5)), source, 21, (1, 9)),
    }
    result = folder / "result"
    result.mkdir()
    shards, (index,), _ = shard_files(found(tensors), "model", 6000, {"format": "pt"})
    (result / index.file).write_bytes(index.content)
    list(execute(shards, result, Journal(folder / "journal"), Tally(), lambda _: None))
    return Result(result, shards, tensors, result / index.file)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A result that nobody may spoil."""
    return _made(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def made(tmp_path: Path) -> Result:
    """A result of one's own."""
    return _made(tmp_path)


def _file_of(made: Result, name: str) -> Path:
    return next(
        made.folder / shard.file
        for shard in made.shards
        for placed in shard.tensors
        if placed.name == name
    )


def _edit_header(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])


def test_a_sound_result_passes(sound: Result) -> None:
    assert len(sound.shards) > 1
    assert sound.names().status == "pass"
    assert sound.dtypes().status == "pass"
    values = sound.values()
    assert (values.status, values.detail) == ("pass", "")
    assert values.measured == {
        "tensors": 7,
        "values": sum(tensor.spec.elements for tensor in sound.tensors.values()),
        "different": 0,
    }


@given(st.data())
def test_one_flipped_bit_anywhere_in_the_data_is_found(
    sound: Result, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    shard = data.draw(st.sampled_from(sound.shards))
    placed = data.draw(st.sampled_from(shard.tensors))
    tensor = placed.entry.tensor
    position = data.draw(st.integers(placed.start, placed.start + tensor.spec.nbytes - 1))
    content = bytearray((sound.folder / shard.file).read_bytes())
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    copy = tmp_path_factory.mktemp("flipped") / shard.file
    copy.write_bytes(content)
    compared = compare_file(copy, shard.file, {one.name: one.entry.tensor for one in shard.tensors})
    element = (position - placed.start) // tensor.spec.dtype.itemsize
    at = (
        tuple(int(axis) for axis in np.unravel_index(element, tensor.extent))
        if tensor.extent
        else ()
    )
    assert compared.differences == (f"{placed.name} differs first at {at}",)
    check = tensors_check(compared, len(shard.tensors))
    assert (check.name, check.status) == ("tensors", "fail")


def test_two_tensors_that_were_swapped_are_found(made: Result) -> None:
    content = {name: made.shards[number] for number, name in ((0, "packed"), (1, "turned"))}
    (one, other) = (
        next(placed for placed in shard.tensors if placed.name == name)
        for name, shard in content.items()
    )
    paths = [made.folder / shard.file for shard in content.values()]
    first, second = (bytearray(path.read_bytes()) for path in paths)
    size = one.entry.tensor.spec.nbytes
    assert size == other.entry.tensor.spec.nbytes
    here, there = slice(one.start, one.start + size), slice(other.start, other.start + size)
    first[here], second[there] = second[there], first[here]
    paths[0].write_bytes(first)
    paths[1].write_bytes(second)
    check = made.values()
    assert check.status == "fail"
    assert "packed differs first at" in check.detail
    assert "turned differs first at" in check.detail
    assert made.names().status == "pass", "names cannot tell"


def test_a_renamed_tensor_is_found(made: Result) -> None:
    path = _file_of(made, "turned")
    _edit_header(path, lambda header: header.update({"other": header.pop("turned")}))
    names, values = made.names(), made.values()
    assert (names.status, values.status) == ("fail", "fail")
    assert "turned: planned" in names.detail
    assert "other: planned None" in names.detail
    assert "other is not in the source" in values.detail
    assert f"turned is not in {path.name}" in values.detail


def test_a_missing_tensor_is_found(made: Result) -> None:
    shard, placed = next(
        (shard, shard.tensors[-1]) for shard in made.shards if len(shard.tensors) > 1
    )
    path = made.folder / shard.file
    path.write_bytes(path.read_bytes()[: -placed.entry.tensor.spec.nbytes])
    _edit_header(path, lambda header: header.pop(placed.name))
    names, values = made.names(), made.values()
    assert (names.status, values.status) == ("fail", "fail")
    assert f"{placed.name}: planned" in names.detail
    assert f"{placed.name} is not in {path.name}" in values.detail


def test_a_changed_dtype_is_found(made: Result) -> None:
    _edit_header(_file_of(made, "packed"), lambda header: header["packed"].update(dtype="I32"))
    assert made.names().status == made.values().status == made.dtypes().status == "fail"
    assert "packed" in made.names().detail
    assert "packed is I32 [40, 30], in the source F32 [40, 30]" in made.values().detail
    assert "packed: the recipe says F32, written is I32" in made.dtypes().detail


def test_a_changed_shape_is_found(made: Result) -> None:
    _edit_header(_file_of(made, "packed"), lambda header: header["packed"].update(shape=[30, 40]))
    assert made.names().status == made.values().status == "fail"


def test_metadata_that_was_removed_is_found(made: Result) -> None:
    _edit_header(_file_of(made, "packed"), lambda header: header.pop("__metadata__"))
    check = made.names()
    assert check.status == "fail"
    assert "lacks format: pt" in check.detail


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_truncated_file_fails_the_checks_and_is_no_error(made: Result, keep: int) -> None:
    path = _file_of(made, "packed")
    path.write_bytes(path.read_bytes()[:keep])
    for check in (made.names(), made.values(), made.dtypes()):
        assert check.status == "fail"
        assert path.name in check.detail or check.name == "dtypes"


def test_a_file_that_is_gone_fails_the_checks_and_is_no_error(made: Result) -> None:
    path = _file_of(made, "packed")
    path.unlink()
    for check in (made.names(), made.values(), made.dtypes()):
        assert check.status == "fail"
    assert f"{path.name} cannot be opened" in made.names().detail


def _swap_shards(index: dict[str, Any]) -> None:
    files = sorted(set(index["weight_map"].values()))
    turned = dict(zip(files, reversed(files), strict=True))
    index["weight_map"] = {name: turned[file] for name, file in index["weight_map"].items()}


def _forget(index: dict[str, Any]) -> None:
    del index["weight_map"]["packed"]


def _invent(index: dict[str, Any]) -> None:
    index["weight_map"]["ghost"] = index["weight_map"]["packed"]


def _miscount(index: dict[str, Any]) -> None:
    index["metadata"]["total_size"] += 1


def _no_total(index: dict[str, Any]) -> None:
    del index["metadata"]


def _no_map(index: dict[str, Any]) -> None:
    del index["weight_map"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_swap_shards, "does not map every tensor"),
        (_forget, "does not map every tensor"),
        (_invent, "does not map every tensor"),
        (_miscount, "bytes, "),
        (_no_total, "is no index"),
        (_no_map, "is no index"),
    ],
)
def test_an_index_that_is_wrong_is_found(
    made: Result, change: Callable[[dict[str, Any]], None], says: str
) -> None:
    document = json.loads(made.index.read_bytes())
    change(document)
    made.index.write_text(json.dumps(document))
    check = made.names()
    assert check.status == "fail"
    assert says in check.detail


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"\xff"])
def test_an_index_that_is_none_is_found(made: Result, content: bytes | None) -> None:
    if content is None:
        made.index.unlink()
    else:
        made.index.write_bytes(content)
    check = made.names()
    assert check.status == "fail"
    assert "is no index" in check.detail


def test_one_name_in_two_files_is_found(made: Result) -> None:
    first, second = sorted(made.folder / name for name in made.files)[:2]
    second.write_bytes(first.read_bytes())
    check = made.names()
    assert check.status == "fail"
    assert f"and in {second.name}" in check.detail


def test_a_tie_that_a_reload_would_not_restore_is_found(made: Result) -> None:
    right = Restored("packed", "head", made.tensors["packed"])
    assert made.names((right,)).status == "pass"
    for tie, says in [
        (right._replace(kept="gone"), "which is not stored"),
        (right._replace(dropped="turned"), "is stored though it was to be left out"),
        (right._replace(tensor=made.tensors["turned"]), "does not hold the values of head"),
        (right._replace(tensor=made.tensors["scalar"]), "head is F32 [] in the source"),
    ]:
        check = made.names((tie,))
        assert check.status == "fail"
        assert says in check.detail


class Half(Leaf):
    """A tensor whose `where` answers for every row but the last of a mesh."""

    __slots__ = ()

    def where(self, mesh: Mesh) -> Iterator[Place]:
        return super().where((mesh[0][:-1], *mesh[1:]))


def test_a_node_that_leaves_elements_out_of_where_is_found(made: Result) -> None:
    whole = made.tensors["packed"]
    assert isinstance(whole, Leaf)
    half = Half(whole.spec, whole.source, whole.start, whole.strides, whole.extent)
    path = _file_of(made, "packed")
    compared = compare_file(path, path.name, {**made.tensors, "packed": half})
    assert "packed differs first at (0, 0)" in compared.differences
