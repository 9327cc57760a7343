from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.planning import shards as module
from hfconvert.planning.shards import Shard, output_stem, shard_files
from hfconvert.tensors.checkpoint import Checkpoint, found
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.header import read_header
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf


class Named:
    """A source that only has a name."""

    size = 1 << 50

    def __init__(self, name: str) -> None:
        self.name = name

    def readinto(self, buffer: memoryview, offset: int) -> None:
        raise AssertionError("a plan reads no values")

    def stage(self, ranges: object) -> None:
        raise AssertionError("a plan stages no values")


class Headed(Named):
    """A source that holds a header and as many bytes of data as it says."""

    def __init__(self, shard: Shard) -> None:
        super().__init__(shard.file)
        self.size = shard.size
        self._header = shard.header

    def readinto(self, buffer: memoryview, offset: int) -> None:
        buffer[:] = self._header[offset : offset + buffer.nbytes]


SOURCE = Named("model.bin")


def _checkpoint(*tensors: tuple[str, str, tuple[int, ...]]) -> Checkpoint:
    """Tensors that lie one after the other in one file."""
    position, made = 0, {}
    for name, code, shape in tensors:
        spec = TensorSpec(BY_CODE[code], shape)
        made[name] = Leaf.packed(spec, SOURCE, position)
        position += spec.nbytes
    return found(made)


def _sizes(shards: Iterable[Shard]) -> list[int]:
    return [sum(one.entry.tensor.spec.nbytes for one in shard.tensors) for shard in shards]


SHAPES = st.lists(st.integers(0, 6), max_size=3).map(tuple)
CODES = st.sampled_from(["U8", "BF16", "F32", "I64", "F8_E4M3"])
CHECKPOINTS = st.lists(st.tuples(CODES, SHAPES), min_size=1, max_size=12).map(
    lambda specs: _checkpoint(*((f"w.{i}", *spec) for i, spec in enumerate(specs)))
)


@given(CHECKPOINTS, st.integers(1, 500))
def test_every_name_is_in_one_shard_and_no_shard_is_empty_or_needlessly_small(
    checkpoint: Checkpoint, limit: int
) -> None:
    shards, _, findings = shard_files(checkpoint, "model", limit, {"format": "pt"})
    names = [placed.name for shard in shards for placed in shard.tensors]
    assert sorted(names) == sorted(checkpoint)
    assert all(shard.tensors for shard in shards)
    sizes = _sizes(shards)
    for shard, size in zip(shards, sizes, strict=True):
        assert size <= limit or sum(1 for one in shard.tensors if one.entry.tensor.spec.nbytes) == 1
    large = [name for name, entry in checkpoint.items() if entry.tensor.spec.nbytes > limit]
    assert sorted(finding.subject for finding in findings) == sorted(large)


@given(CHECKPOINTS, st.integers(1, 500))
def test_headers_say_where_tensors_are_placed(checkpoint: Checkpoint, limit: int) -> None:
    for shard in shard_files(checkpoint, "model", limit, {"format": "pt", "a": "b"})[0]:
        header = read_header(Headed(shard))
        assert header.metadata == {"a": "b", "format": "pt"}
        assert [(one.name, one.spec, one.start) for one in header.entries] == [
            (one.name, one.entry.tensor.spec, one.start)
            for one in sorted(
                shard.tensors, key=lambda one: (one.start, one.entry.tensor.spec.nbytes)
            )
        ]


@given(CHECKPOINTS, st.integers(1, 500))
def test_every_tensor_is_aligned_to_its_elements(checkpoint: Checkpoint, limit: int) -> None:
    for shard in shard_files(checkpoint, "model", limit, {"format": "pt"})[0]:
        for placed in shard.tensors:
            assert placed.start % placed.entry.tensor.spec.dtype.itemsize == 0


@given(CHECKPOINTS, st.integers(1, 500))
def test_the_index_maps_what_the_shards_hold(checkpoint: Checkpoint, limit: int) -> None:
    shards, texts, _ = shard_files(checkpoint, "model", limit, {"format": "pt"})
    assert len(texts) == (len(shards) > 1)
    for text in texts:
        document = json.loads(text.content)
        assert text.file == "model.safetensors.index.json"
        assert document["metadata"] == {"total_size": sum(_sizes(shards))}
        assert document["weight_map"] == {
            placed.name: shard.file for shard in shards for placed in shard.tensors
        }
        assert list(document["weight_map"]) == sorted(document["weight_map"])


def test_one_shard_has_the_plain_name() -> None:
    shards, texts, _ = shard_files(_checkpoint(("w", "F32", (2,))), "model", 8, {})
    assert [shard.file for shard in shards] == ["model.safetensors"]
    assert texts == ()


def test_several_shards_are_numbered() -> None:
    checkpoint = _checkpoint(("a", "F32", (2,)), ("b", "F32", (2,)), ("c", "F32", (1,)))
    shards, _, _ = shard_files(checkpoint, "adapter_model", 8, {})
    assert [(shard.file, [one.name for one in shard.tensors]) for shard in shards] == [
        ("adapter_model-00001-of-00003.safetensors", ["a"]),
        ("adapter_model-00002-of-00003.safetensors", ["b"]),
        ("adapter_model-00003-of-00003.safetensors", ["c"]),
    ]


def test_a_tensor_above_the_limit_has_a_file_of_its_own_and_a_warning() -> None:
    checkpoint = _checkpoint(
        ("a", "F32", (10,)), ("big", "F32", (1000, 1000)), ("b", "F32", (10,)), ("c", "F32", (2,))
    )
    shards, _, (finding,) = shard_files(checkpoint, "model", 1000, {})
    assert [[one.name for one in shard.tensors] for shard in shards] == [["a"], ["big"], ["b", "c"]]
    assert (finding.level, finding.subject) == ("warning", "big")
    assert "4000000 bytes, above max_shard_size of 1000" in finding.message


def test_a_header_is_bounded_as_data_is() -> None:
    checkpoint = _checkpoint(*((f"name.{i:04}", "F32", (0,)) for i in range(100)))
    with mock.patch.object(module, "HEADER_BYTES", 2000):
        shards, _, _ = shard_files(checkpoint, "model", 10**9, {})
    assert len(shards) > 1
    assert all(len(shard.header) < 2100 for shard in shards)
    assert sum(len(shard.tensors) for shard in shards) == 100


def test_wide_elements_come_first_then_the_order_of_the_source() -> None:
    checkpoint = _checkpoint(
        ("small", "U8", (3,)), ("b", "F32", (2,)), ("half", "BF16", (1,)), ("a", "F32", (2,))
    )
    ((shard,), _, _) = shard_files(checkpoint, "model", 1000, {})
    assert [one.name for one in shard.tensors] == ["b", "a", "half", "small"]


def test_order_of_names_and_metadata_has_no_part_in_the_bytes() -> None:
    one = _checkpoint(("a", "F32", (2,)), ("b", "U8", (2,)))
    turned = Checkpoint(dict(reversed(list(one.entries.items()))))
    first = shard_files(one, "model", 1000, {"x": "1", "format": "pt"})
    assert shard_files(turned, "model", 1000, {"format": "pt", "x": "1"}) == first


@pytest.mark.parametrize(
    ("stem", "transformers", "output"),
    [
        ("pytorch_model", True, "model"),
        ("pytorch_model", False, "model"),
        ("pytorch_model.fp16", True, "model.fp16"),
        ("model", True, "model"),
        ("diffusion_pytorch_model", False, "diffusion_pytorch_model"),
        ("adapter_model", False, "adapter_model"),
        ("open_clip_pytorch_model", False, "open_clip_model"),
        ("weights", True, "model"),
        ("weights", False, "weights"),
    ],
)
def test_the_name_that_libraries_look_for(stem: str, transformers: Any, output: str) -> None:
    assert output_stem(stem, transformers=transformers) == output
