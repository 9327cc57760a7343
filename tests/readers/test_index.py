from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.errors import Exit, UserError
from hfconvert.readers.index import Index, check_index, read_index
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.source import LocalFile

NAME = "model.safetensors.index.json"


def _read(root: Path, document: Any) -> Index:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    (root / NAME).write_bytes(content)
    return read_index(root, NAME)


def _held(path: Path, names: Mapping[str, list[str]]) -> dict[str, dict[str, Leaf]]:
    """Tensors of 8 bytes each by file; those with one name apart from the part after `=` share bytes."""
    source = LocalFile.of(path)
    spec = TensorSpec(BY_CODE["F32"], (2,))
    places: dict[str, int] = {}
    return {
        file: {
            name: Leaf.packed(spec, source, 8 * places.setdefault(name.split("=")[0], len(places)))
            for name in inside
        }
        for file, inside in names.items()
    }


def test_an_index_names_its_shards_in_order(tmp_path: Path) -> None:
    index = _read(
        tmp_path,
        {"metadata": {"total_size": 12}, "weight_map": {"b": "two", "a": "one", "c": "two"}},
    )
    assert index.weight_map == {"b": "two", "a": "one", "c": "two"}
    assert index.shards == ("one", "two")
    assert index.total_size == 12


@pytest.mark.parametrize(
    ("metadata", "total"),
    [
        (b'{"total_size": 12.0}', 12),
        (b'{"total_size": 12.5}', None),
        (b'{"total_size": 1e999}', None),
        (b'{"total_size": NaN}', None),
        (b'{"total_size": "12"}', None),
        (b'{"total_size": true}', None),
        (b"{}", None),
        (b"null", None),
        (b"[1]", None),
    ],
)
def test_a_total_size_that_is_none_is_no_error(
    tmp_path: Path, metadata: bytes, total: int | None
) -> None:
    document = b'{"metadata": ' + metadata + b', "weight_map": {"a": "one"}}'
    assert _read(tmp_path, document).total_size == total


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (b"", "no valid JSON"),
        (b"{", "no valid JSON"),
        (b"\xff\xfe", "no valid JSON"),
        (b"[" * 200_000, "no valid JSON"),
        ([], "no weight_map"),
        ({}, "no weight_map"),
        ({"weight_map": {}}, "an empty one"),
        ({"weight_map": ["a"]}, "no weight_map"),
        ({"weight_map": {"w": 1}}, "tensor 'w' is mapped to 1"),
        ({"weight_map": {"w": None}}, "tensor 'w'"),
        ({"weight_map": {"w": ""}}, "tensor 'w'"),
        ({"weight_map": {"w": ".."}}, "tensor 'w' is mapped to '..'"),
        ({"weight_map": {"w": "../model.safetensors"}}, "no file of the folder"),
        ({"weight_map": {"w": "/etc/passwd"}}, "no file of the folder"),
        ({"weight_map": {"w": "a\\b"}}, "no file of the folder"),
        ({"weight_map": {"w": "a\0b"}}, "no file of the folder"),
        ({"weight_map": {"w": "a" * 300}}, "no file of the folder"),
    ],
)
def test_what_is_no_index_is_refused(tmp_path: Path, document: Any, says: str) -> None:
    with pytest.raises(UserError) as caught:
        _read(tmp_path, document)
    assert caught.value.exit == Exit.SOURCE
    assert caught.value.problems[0].subject == NAME
    assert says in str(caught.value)


@given(st.binary(max_size=40))
def test_any_bytes_meet_only_our_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    root = tmp_path_factory.mktemp("index")
    with pytest.raises(UserError) as caught:
        _read(root, content)
    assert caught.value.exit == Exit.SOURCE


def test_index_and_shards_that_agree_say_nothing(tmp_path: Path) -> None:
    index = _read(
        tmp_path, {"metadata": {"total_size": 16}, "weight_map": {"a": "one", "b": "two"}}
    )
    held = _held(tmp_path / NAME, {"one": ["a"], "two": ["b"]})
    assert check_index(index, held) == ()


def test_every_difference_is_named_in_both_directions(tmp_path: Path) -> None:
    index = _read(tmp_path, {"weight_map": {"a": "one", "ghost": "one", "moved": "one"}})
    held = _held(tmp_path / NAME, {"one": ["a", "extra"], "two": ["moved"]})
    with pytest.raises(UserError) as caught:
        check_index(index, held)
    assert caught.value.exit == Exit.SOURCE
    said = {problem.subject: problem.what for problem in caught.value.problems}
    assert said == {
        "ghost": "the index maps it to one, which does not hold it",
        "moved": "the index maps it to one, which does not hold it",
        "extra": "one holds it, but the index does not name it",
    }
    assert {problem.check for problem in caught.value.problems} == {"names"}


@pytest.mark.parametrize("total", [16, 24])
def test_ties_may_be_counted_once_or_twice(tmp_path: Path, total: int) -> None:
    weight_map = {"a": "one", "a=tied": "one", "b": "one"}
    index = _read(tmp_path, {"metadata": {"total_size": total}, "weight_map": weight_map})
    held = _held(tmp_path / NAME, {"one": ["a", "a=tied", "b"]})
    assert check_index(index, held) == ()


def test_a_wrong_total_is_a_warning(tmp_path: Path) -> None:
    index = _read(tmp_path, {"metadata": {"total_size": 99}, "weight_map": {"a": "one"}})
    (finding,) = check_index(index, _held(tmp_path / NAME, {"one": ["a"]}))
    assert (finding.level, finding.subject) == ("warning", NAME)
    assert finding.message == "total_size is 99, its tensors have 8 bytes"
