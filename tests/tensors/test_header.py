from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save

from hfconvert.errors import Exit, UserError
from hfconvert.tensors.dtype import STORED
from hfconvert.tensors.header import METADATA, Header, entry_bytes, read_header, write_header
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.source import LocalFile

Make = Callable[..., Any]
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(
    lambda name: name != METADATA
)
METADATAS = st.dictionaries(NAMES, NAMES, max_size=3)


@st.composite
def specs(draw: st.DrawFn) -> TensorSpec:
    dtype = draw(st.sampled_from(list(STORED.values())))
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    if dtype.bits % 8:  # whole bytes: the format knows no half ones
        shape = [*shape, 8]
    return TensorSpec(dtype, tuple(shape))


def _file(document: Any, data: bytes = b"", padding: bytes = b"") -> bytes:
    text = (document if isinstance(document, bytes) else json.dumps(document).encode()) + padding
    return len(text).to_bytes(8, "little") + text + data


def _tensor(begin: int, end: int, dtype: Any = "U8", shape: Any = None) -> dict[str, Any]:
    shape = [end - begin] if shape is None else shape
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def _refusal(recorder: Make, content: bytes) -> str:
    with pytest.raises(UserError) as caught:
        read_header(recorder(content, "model.safetensors"))
    assert caught.value.exit == Exit.SOURCE
    assert all(problem.subject == "model.safetensors" for problem in caught.value.problems)
    return str(caught.value)


@given(st.dictionaries(NAMES, specs(), max_size=6), METADATAS)
def test_what_is_written_is_read_again(
    recorder: Make, tensors: dict[str, TensorSpec], metadata: dict[str, str]
) -> None:
    written = write_header(tensors.items(), metadata)
    assert len(written) % 8 == 0, "data begins aligned"
    source = recorder(written + bytes(sum(spec.nbytes for spec in tensors.values())))
    header = read_header(source)
    assert {entry.name: entry.spec for entry in header.entries} == tensors
    assert (header.metadata or {}) == metadata
    position = header.data_start
    for entry in header.entries:
        assert entry.start == position
        position += entry.spec.nbytes
    assert position == source.size
    assert source.reads == [(0, 8), (8, len(written))], "no byte of the data is read"


@given(st.dictionaries(NAMES, specs(), max_size=6))
def test_the_bound_of_a_header_holds(tensors: dict[str, TensorSpec]) -> None:
    bound = sum(entry_bytes(name, spec) for name, spec in tensors.items())
    assert len(write_header(tensors.items(), {})) <= 8 + 2 + 7 + bound


@given(st.dictionaries(NAMES, specs(), max_size=4), METADATAS)
def test_the_order_of_the_metadata_has_no_part_in_the_bytes(
    tensors: dict[str, TensorSpec], metadata: dict[str, str]
) -> None:
    turned = dict(reversed(metadata.items()))
    assert write_header(tensors.items(), metadata) == write_header(tensors.items(), turned)


def test_the_safetensors_library_reads_what_we_write(tmp_path: Path) -> None:
    tensors = {f"w.{code}": TensorSpec(dtype, (2, 8)) for code, dtype in STORED.items()}
    content = write_header(tensors.items(), {"format": "pt", "é\n": "ü"})
    path = tmp_path / "model.safetensors"
    path.write_bytes(content + bytes(sum(spec.nbytes for spec in tensors.values())))
    with safe_open(str(path), framework="np") as file:
        assert file.metadata() == {"format": "pt", "é\n": "ü"}
        seen = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        assert {name: part.get_dtype() for name, part in seen.items()} == {
            name: spec.dtype.code for name, spec in tensors.items()
        }
        assert all(part.get_shape() == [2, 8] for part in seen.values())


def _saved(*, metadata: dict[str, str] | None, **tensors: torch.Tensor) -> bytes:
    return save(tensors, metadata=metadata)


def test_we_read_what_the_safetensors_library_writes(recorder: Make) -> None:
    tensors = {}
    for dtype in STORED.values():
        if dtype.torch and dtype.kind != "packed":
            raw = torch.arange(6 * dtype.itemsize, dtype=torch.uint8)
            raw = raw % 2 if dtype.kind == "bool" else raw
            tensors[dtype.code] = raw.view(getattr(torch, dtype.torch)).reshape(2, 3)
    content = _saved(metadata={"note": "x"}, **tensors)
    header = read_header(recorder(content))
    assert header.metadata == {"note": "x"}
    assert {entry.name for entry in header.entries} == set(tensors)
    for entry in header.entries:
        assert (entry.spec.dtype.code, entry.spec.shape) == (entry.name, (2, 3))
        stored = content[entry.start : entry.start + entry.spec.nbytes]
        assert stored == bytes(tensors[entry.name].view(torch.uint8).flatten().tolist())


def test_no_metadata_and_no_tensors(recorder: Make) -> None:
    assert read_header(recorder(_file({}))) == Header((), None, 10)
    assert read_header(recorder(_saved(metadata=None))).metadata is None


def test_padding_of_any_length_is_fine(recorder: Make) -> None:
    content = _file({"w": _tensor(0, 3)}, b"abc", padding=b" " * 37)
    assert read_header(recorder(content)).entries[0].start == len(content) - 3


MALFORMED = {
    "overlap": ({"a": _tensor(0, 64), "b": _tensor(0, 64)}, 64, "overlap tensor 'b'"),
    "partial overlap": ({"a": _tensor(0, 6), "b": _tensor(4, 10)}, 10, "overlap tensor 'b'"),
    "hole": ({"a": _tensor(0, 4), "b": _tensor(6, 10)}, 10, "hole before tensor 'b'"),
    "hole at the start": ({"a": _tensor(2, 6)}, 6, "hole before tensor 'a'"),
    "trailing bytes": ({"a": _tensor(0, 4)}, 5, "end at byte"),
    "truncated": ({"a": _tensor(0, 4)}, 3, "end at byte"),
    "wrong size": ({"w": _tensor(0, 4, "F32", [2])}, 4, "tensor 'w' is F32 [2] but has 4 bytes"),
    "backwards": ({"w": _tensor(4, 0, "U8", [4])}, 4, "tensor 'w'"),
    "half bytes": ({"w": _tensor(0, 2, "F4", [3])}, 2, "tensor 'w'"),
    "unknown dtype": ({"w": _tensor(0, 4, "F33")}, 4, "tensor 'w' has the unknown dtype 'F33'"),
    "torch only": ({"w": _tensor(0, 16, "complex128", [1])}, 16, "unknown dtype 'complex128'"),
    "dtype of another type": ({"w": _tensor(0, 4, ["F32"])}, 4, "unknown dtype"),
    "empty dtype": ({"w": _tensor(0, 4, "")}, 4, "unknown dtype ''"),
    "bool in shape": ({"w": _tensor(0, 1, "U8", [True])}, 1, "tensor 'w'"),
    "float in shape": ({"w": _tensor(0, 4, "U8", [4.0])}, 4, "tensor 'w'"),
    "negative shape": ({"w": _tensor(0, 4, "U8", [-2, -2])}, 4, "tensor 'w'"),
    "huge shape": ({"w": _tensor(0, 0, "U8", [1 << 64, 0])}, 0, "tensor 'w'"),
    "shape is no list": ({"w": _tensor(0, 4, "U8", 4)}, 4, "tensor 'w'"),
    "string in shape": ({"w": _tensor(0, 4, "U8", ["4"])}, 4, "tensor 'w'"),
    "null in shape": ({"w": _tensor(0, 4, "U8", [None])}, 4, "tensor 'w'"),
    "three offsets": (
        {"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4, 4]}},
        4,
        "tensor 'w'",
    ),
    "negative offsets": ({"w": _tensor(-4, 0, "U8", [4])}, 0, "tensor 'w'"),
    "a field too many": ({"w": _tensor(0, 4) | {"x": 1}}, 4, "other fields"),
    "a field too few": ({"w": {"dtype": "U8", "shape": [4]}}, 4, "other fields"),
    "no map": ({"w": [1]}, 0, "tensor 'w'"),
    "metadata of numbers": ({METADATA: {"n": 1}}, 0, METADATA),
    "metadata is a list": ({METADATA: ["x"]}, 0, METADATA),
    "metadata is nested": ({METADATA: {"n": {}}}, 0, METADATA),
    "a list": ([1], 0, "not a JSON object"),
    "a number": (1, 0, "not a JSON object"),
    "not JSON": (b"{oops", 0, "no valid JSON"),
    "nothing": (b"", 0, "no valid JSON"),
    "not UTF-8": (b'{"\xff": 1}', 0, "no valid JSON"),
    "half a surrogate": (b'{"w\\ud800": {"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1, ""),
    "half a surrogate in metadata": (b'{"__metadata__": {"n": "\\udfff"}}', 0, ""),
    "duplicate": (b'{"w": 1, "w": 1}', 0, "'w' stands twice"),
    "duplicate inside": (b'{"w": {"dtype": "U8", "dtype": "U8"}}', 0, "'dtype' stands twice"),
    "deep": (b"[" * 200_000, 0, "no valid JSON"),
    "deep objects": (b'{"a":' * 200_000, 0, "no valid JSON"),
    "huge number": (b'{"w": ' + b"9" * 5000 + b"}", 0, "JSON"),
    "too many dimensions": ({"w": _tensor(0, 1, "U8", [1] * 65)}, 1, "tensor 'w' has 65"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_headers_are_refused_and_the_tensor_named(recorder: Make, case: str) -> None:
    document, nbytes, message = MALFORMED[case]
    assert message in _refusal(recorder, _file(document, bytes(nbytes)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "too short"),
        (b"\1\0\0", "too short"),
        (b"\xff" * 8 + b"{}", "more than 100000000 allowed"),
        ((1000).to_bytes(8, "little") + b"{}", "claims 1000 bytes, the file has 10"),
        ((100_000_001).to_bytes(8, "little") + b"{}", "more than"),
    ],
)
def test_lengths_that_cannot_be_are_refused(recorder: Make, content: bytes, message: str) -> None:
    assert message in _refusal(recorder, content)


def test_every_bad_tensor_is_named_at_once(recorder: Make) -> None:
    document = {"a": _tensor(0, 4, "X"), "b": _tensor(4, 8), "c": _tensor(8, 12, "F32", [2])}
    refusal = _refusal(recorder, _file(document, bytes(12)))
    assert "tensor 'a'" in refusal
    assert "tensor 'c'" in refusal
    assert "tensor 'b'" not in refusal


def test_a_header_that_lies_about_huge_products_is_refused_quickly(recorder: Make) -> None:
    shape = [(1 << 63) - 1] * 1_000_000
    assert "tensor 'w'" in _refusal(recorder, _file({"w": _tensor(0, 0, "U8", shape)}))


VALID = _file(
    {METADATA: {"format": "pt"}, "a": _tensor(0, 16, "F32", [2, 2]), "é": _tensor(16, 20)},
    bytes(20),
)


@given(st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), max_size=6))
@settings(max_examples=300)
def test_damaged_bytes_meet_only_our_error(recorder: Make, changes: list[tuple[int, int]]) -> None:
    content = bytearray(VALID)
    for position, value in changes:
        content[position] = value
    _sound_or_refused(recorder(bytes(content)))


@given(st.binary(max_size=60), st.binary(max_size=20))
def test_any_bytes_meet_only_our_error(recorder: Make, text: bytes, data: bytes) -> None:
    _sound_or_refused(recorder(_file(text, data)))
    _sound_or_refused(recorder(text))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
ALMOST = st.fixed_dictionaries(
    {"dtype": st.sampled_from(list(STORED)) | JSON, "shape": st.lists(st.integers(-1, 3) | JSON)},
    optional={"data_offsets": st.lists(st.integers(-1, 9), max_size=3) | JSON},
)


@given(st.dictionaries(st.text(max_size=3) | st.just(METADATA), ALMOST | JSON, max_size=4))
def test_almost_headers_meet_only_our_error(recorder: Make, document: dict[str, Any]) -> None:
    _sound_or_refused(recorder(_file(document, bytes(6))))


def _sound_or_refused(source: Any) -> None:
    try:
        header = read_header(source)
    except UserError as error:
        refused = error
    else:
        _check_sound(header, source.size)
        return
    assert refused.exit == Exit.SOURCE
    str(refused).encode()  # it can be said


def _check_sound(header: Header, size: int) -> None:
    stops = [entry.start + entry.spec.nbytes for entry in header.entries]
    assert np.all(np.diff(stops) >= 0)
    assert max(stops, default=header.data_start) == size
    write_header(((entry.name, entry.spec) for entry in header.entries), header.metadata or {})


def test_a_file_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(VALID)
    header = read_header(LocalFile.of(path))
    assert [entry.name for entry in header.entries] == ["a", "é"]
