from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.planning.digest import (
    Identity,
    content_hash,
    digest_of,
    identify,
    identifying,
    remembered,
    unknown_bytes,
)
from hfconvert.planning.shards import Shard, shard_files
from hfconvert.tensors.checkpoint import found
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.source import LocalFile


@pytest.fixture
def file(tmp_path: Path) -> LocalFile:
    (tmp_path / "model.bin").write_bytes(bytes(range(256)))
    return LocalFile.of(tmp_path / "model.bin")


def _shards(
    file: LocalFile, *names: str, code: str = "F32", limit: int = 1000
) -> tuple[Shard, ...]:
    spec = TensorSpec(BY_CODE[code], (2,))
    tensors = {name: Leaf.packed(spec, file, 8 * i) for i, name in enumerate(names)}
    return shard_files(found(tensors), "model", limit, {"format": "pt"})[0]


RECIPE: Mapping[str, Any] = {"version": 1, "dtype": "bfloat16"}
FILES = [["model.bin", "aa"]]


def test_the_same_inputs_have_the_same_digest(file: LocalFile) -> None:
    one = digest_of(RECIPE, _shards(file, "a", "b"), FILES)
    turned = {"dtype": "bfloat16", "version": 1}
    assert digest_of(turned, _shards(file, "a", "b"), list(FILES)) == one
    assert len(one) == 64


def test_the_path_of_the_source_has_no_part_in_it(tmp_path: Path, file: LocalFile) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "model.bin").write_bytes(bytes(256))
    other = LocalFile.of(tmp_path / "elsewhere" / "model.bin")
    assert digest_of(RECIPE, _shards(other, "a"), FILES) == digest_of(
        RECIPE, _shards(file, "a"), FILES
    )


def test_everything_that_makes_other_bytes_makes_another_digest(file: LocalFile) -> None:
    plain = _shards(file, "a", "b")
    digests = {
        digest_of(RECIPE, plain, FILES),
        digest_of({**RECIPE, "dtype": "float16"}, plain, FILES),
        digest_of(RECIPE, plain, [["model.bin", "bb"]]),
        digest_of(RECIPE, plain, [*FILES, ["config.json", "cc"]]),
        digest_of(RECIPE, _shards(file, "b", "a"), FILES),
        digest_of(RECIPE, _shards(file, "a", "c"), FILES),
        digest_of(RECIPE, _shards(file, "a"), FILES),
        digest_of(RECIPE, _shards(file, "a", "b", code="I32"), FILES),
        digest_of(RECIPE, _shards(file, "a", "b", limit=8), FILES),
    }
    assert len(digests) == 9


def test_content_is_hashed_and_not_the_name(file: LocalFile) -> None:
    assert content_hash(file) == hashlib.sha256(bytes(range(256))).hexdigest()


def test_a_source_that_went_away_is_an_error_of_the_source(file: LocalFile) -> None:
    file.path.unlink()
    with pytest.raises(UserError) as caught:
        content_hash(file)
    assert caught.value.exit == Exit.SOURCE


def test_known_files_are_not_hashed_again(file: LocalFile) -> None:
    (identity,) = identify([file], {})
    assert identity.sha256 == content_hash(file)
    known = remembered({"files": [{**identity.as_json(), "sha256": "remembered"}]})
    assert unknown_bytes([file], known) == 0
    assert identify([file], known)[0].sha256 == "remembered"


def test_a_file_is_known_by_path_size_and_time(tmp_path: Path, file: LocalFile) -> None:
    known = remembered({"files": [one.as_json() for one in identify([file], {})]})
    os.utime(file.path, ns=(0, file.mtime_ns + 1))
    touched = LocalFile.of(file.path)
    assert unknown_bytes([touched], known) == 256
    copy = tmp_path / "copy.bin"
    copy.write_bytes(bytes(range(256)))
    os.utime(copy, ns=(0, file.mtime_ns))
    assert unknown_bytes([LocalFile.of(copy)], known) == 256


@pytest.mark.parametrize(
    "record",
    [
        None,
        {},
        {"files": None},
        {"files": {"path": "x"}},
        {"files": [1, None, "x", {"path": "x"}, {"path": [], "size": 1, "mtime_ns": 1}]},
    ],
)
def test_records_of_another_form_are_passed_over(record: Any) -> None:
    assert remembered(record) == {}


def test_hashing_beside_the_work(file: LocalFile) -> None:
    with identifying([file], {}) as identities:
        (identity,) = identities.result()
    assert identity == Identity(
        str(file.path.resolve()), 256, file.mtime_ns, hashlib.sha256(bytes(range(256))).hexdigest()
    )


def test_hashing_ends_with_the_work_that_failed(file: LocalFile) -> None:
    stop = Event()
    stop.set()
    assert identify([file], {}, stop)[0].sha256 == hashlib.sha256(b"").hexdigest()
    with pytest.raises(KeyboardInterrupt), identifying([file], {}) as identities:
        raise KeyboardInterrupt
    assert identities.done()
