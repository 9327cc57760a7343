"""The zip container: byte order, top folders, missing and wrong storages, compressed entries, checksums."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hfconvert.errors import UserError
from hfconvert.readers.torch_checksums import Passing, flipped
from hfconvert.tensors.source import LocalFile
from hfconvert.tensors.unreadable import Unreadable

WEIGHTS = {
    "f": torch.arange(6.0).reshape(2, 3),
    "c": torch.complex(torch.arange(3.0), torch.ones(3)),
    "i": torch.tensor([1, -2], dtype=torch.int16),
    "b": torch.tensor([True, False]),
}


def repacked(
    data: bytes,
    *,
    rename: Callable[[str], str | None] = lambda name: name,
    change: Callable[[str, bytes], bytes] = lambda name, entry: entry,
    method: int = zipfile.ZIP_STORED,
) -> bytes:
    """The same checkpoint with other names, contents or compression, as other tools write zips."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", method) as new:
        for name in old.namelist():
            renamed = rename(name)
            if renamed is not None:
                new.writestr(renamed, change(name, old.read(name)))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: name.partition("/")[2],
        lambda name: "other/" + name.partition("/")[2],
        lambda name: "a/b/c/" + name.partition("/")[2],
        lambda name: None if name.endswith(("version", "byteorder", "id")) else name,
    ],
    ids=["no folder", "another folder", "folders in folders", "without the small entries"],
)
def test_any_top_folder(kit: Any, rename: Callable[[str], str | None]) -> None:
    found = kit.open(repacked(kit.save(WEIGHTS), rename=rename))
    assert {name: kit.values(lazy) for name, lazy in found.tensors.items()} == {
        name: kit.raw(tensor) for name, tensor in WEIGHTS.items()
    }


def test_big_endian_data_is_swapped(kit: Any) -> None:
    def big(name: str, entry: bytes) -> bytes:
        if name.endswith("byteorder"):
            return b"big"
        widths = {"data/0": 4, "data/1": 4, "data/2": 2, "data/3": 1}
        width = next((width for key, width in widths.items() if name.endswith(key)), 1)
        return b"".join(entry[at : at + width][::-1] for at in range(0, len(entry), width))

    found = kit.open(repacked(kit.save(WEIGHTS), change=big))
    for name, tensor in WEIGHTS.items():
        lazy = found.tensors[name]
        assert kit.values(lazy, 8) == kit.elsewhere(lazy) == kit.raw(tensor), name


def test_an_unknown_byte_order_is_refused(kit: Any) -> None:
    data = repacked(
        kit.save(WEIGHTS), change=lambda name, entry: b"pdp11" if "byteorder" in name else entry
    )
    with pytest.raises(UserError, match="neither little nor big"):
        kit.open(data)


def test_compressed_entries_are_unpacked_and_said(kit: Any) -> None:
    found = kit.open(repacked(kit.save(WEIGHTS), method=zipfile.ZIP_DEFLATED))
    assert {name: kit.values(lazy) for name, lazy in found.tensors.items()} == {
        name: kit.raw(tensor) for name, tensor in WEIGHTS.items()
    }
    assert "4 storages are compressed" in found.messages


def test_another_compression_is_refused(kit: Any) -> None:
    with pytest.raises(UserError, match="method 12"):
        kit.open(repacked(kit.save(WEIGHTS), method=zipfile.ZIP_BZIP2))


def test_an_entry_that_expands_a_thousandfold_is_not_unpacked(kit: Any) -> None:
    data = repacked(kit.save({"w": torch.zeros(8_000_000)}), method=zipfile.ZIP_DEFLATED)
    assert len(data) < 100_000
    lazy = kit.open(data).tensors["w"]
    assert isinstance(lazy, Unreadable)
    with pytest.raises(UserError, match="unpack to 32000000"):
        kit.values(lazy)


@pytest.mark.parametrize(
    ("rename", "match"),
    [(lambda name: None if name.endswith("data/0") else name, "storage '0' is not in the file")],
)
def test_a_missing_storage(kit: Any, rename: Callable[[str], str | None], match: str) -> None:
    found = kit.open(repacked(kit.save(WEIGHTS), rename=rename))
    with pytest.raises(UserError, match=match):
        kit.values(found.tensors["f"])
    assert kit.values(found.tensors["i"]) == kit.raw(WEIGHTS["i"])


@pytest.mark.parametrize("extra", [b"x", b""])
def test_a_storage_of_another_size(kit: Any, extra: bytes) -> None:
    data = repacked(
        kit.save(WEIGHTS),
        change=lambda name, entry: (entry + extra)[-20:] if name.endswith("data/0") else entry,
    )
    with pytest.raises(UserError, match="has 20 bytes; the pickle says 24") as caught:
        kit.values(kit.open(data).tensors["f"])
    assert caught.value.problems[0].subject == "f"


def test_a_flipped_bit_in_the_pickle_is_found(kit: Any) -> None:
    data = bytearray(kit.save(WEIGHTS))
    data[data.index(b"_rebuild_tensor_v2") + 1] ^= 1
    with pytest.raises(UserError, match=r"checksum of 'archive/data\.pkl' is wrong"):
        kit.open(bytes(data))


def test_a_flipped_bit_in_a_tensor_is_found_when_all_is_read(kit: Any) -> None:
    data = kit.save({"w": torch.arange(1000.0), "v": torch.ones(3)})
    found = kit.open(data)
    assert flipped(found.file.checksums) == []
    assert len(found.file.checksums) == 2
    damaged = bytearray(data)
    damaged[found.file.checksums[0].start + 100] ^= 4
    problems = flipped(kit.open(bytes(damaged)).file.checksums)
    assert [problem.what for problem in problems] == ["the checksum of 'archive/data/0' is wrong"]


@pytest.mark.parametrize("damaged", [None, 0, 1])
@pytest.mark.parametrize("step", [64, 1000, 1 << 20])
def test_checksums_of_what_passes_by(
    kit: Any, tmp_path: Path, step: int, damaged: int | None
) -> None:
    data = bytearray(kit.save({"w": torch.arange(1000.0), "v": torch.ones(300)}))
    places = [one.start for one in kit.open(bytes(data)).file.checksums]
    if damaged is not None:
        data[places[damaged] + 100] ^= 4
    (tmp_path / "w.pt").write_bytes(data)
    file = LocalFile.of(tmp_path / "w.pt")
    checksums = [replace(one, source=file) for one in kit.open(bytes(data)).file.checksums]
    wrong = [] if damaged is None else [f"the checksum of 'archive/data/{damaged}' is wrong"]
    passing = Passing(checksums)
    for start in range(0, len(data), step):
        passing.see(file, start, memoryview(data)[start : start + step])
    data[:] = bytes(len(data))
    (tmp_path / "w.pt").write_bytes(data)  # all was seen: it is not read again
    assert [problem.what for problem in passing.flips()] == wrong


def test_checksums_of_what_passed_by_in_part_or_not_at_all(kit: Any, tmp_path: Path) -> None:
    data = bytearray(kit.save({"w": torch.arange(1000.0), "v": torch.ones(300)}))
    first, second = kit.open(bytes(data)).file.checksums
    data[first.start + 100] ^= 4
    (tmp_path / "w.pt").write_bytes(data)
    file = LocalFile.of(tmp_path / "w.pt")
    for stop in (0, first.start + 50, first.start + 2000):
        passing = Passing([replace(first, source=file), replace(second, source=file)])
        passing.see(file, 0, memoryview(data)[:stop])
        assert [problem.what for problem in passing.flips()] == [
            "the checksum of 'archive/data/0' is wrong"
        ]


def test_checksums_that_torch_did_not_write_are_none(kit: Any) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        data = kit.save(WEIGHTS)
    finally:
        torch.serialization.set_crc32_options(True)
    found = kit.open(data)
    assert found.file.checksums == ()
    assert kit.values(found.tensors["f"]) == kit.raw(WEIGHTS["f"])


def test_two_checkpoints_in_one_zip(kit: Any) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/data.pkl", b"N.")
        archive.writestr("b/data.pkl", b"N.")
    with pytest.raises(UserError, match="several folders: 'a/', 'b/'"):
        kit.open(buffer.getvalue())


def pid(*parts: bytes) -> bytes:
    return b"(" + b"".join(parts) + b"tQ."


STORAGE = b"X\x07\x00\x00\x00storage"
FLOATS = b"ctorch\nFloatStorage\n"
ODD_IDS = {
    "no tuple": (b"K\x01Q.", "no storage"),
    "no storage": (pid(b"X\x01\x00\x00\x00a", FLOATS, b"K\x00NK\x01"), "no storage"),
    "too short": (pid(STORAGE, FLOATS), "no storage"),
    "key of none": (pid(STORAGE, FLOATS, b"NNK\x01"), "without key or size"),
    "negative": (pid(STORAGE, FLOATS, b"K\x00NJ\xff\xff\xff\xff"), "without key or size"),
    "size of none": (pid(STORAGE, FLOATS, b"K\x00NN"), "without key or size"),
    "absurd": (pid(STORAGE, FLOATS, b"K\x00N\x8a\x0a" + b"\x7f" * 10), "without key or size"),
    "class": (pid(STORAGE, b"cos\nsystem\n", b"K\x00NK\x01"), r"class os\.system"),
    "no class": (pid(STORAGE, b"]", b"K\x00NK\x01"), "class list"),
}


@pytest.mark.parametrize("case", ODD_IDS)
def test_persistent_ids_of_another_form(kit: Any, case: str) -> None:
    data, match = ODD_IDS[case]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("m/data.pkl", data)
    with pytest.raises(UserError, match=match):
        kit.open(buffer.getvalue())


def test_one_key_in_two_types_is_two_storages(kit: Any) -> None:
    """Both must have the size of the entry; torch never writes this."""

    def tensor(kind: bytes, count: bytes) -> bytes:
        storage = b"(" + STORAGE + b"ctorch\n" + kind + b"\nX\x01\x00\x00\x000N" + count + b"tQ"
        return b"ctorch._utils\n_rebuild_tensor\n(" + storage + b"K\x00K\x02\x85K\x01\x85tR"

    tree = b"]" + tensor(b"FloatStorage", b"K\x02") + b"a" + tensor(b"IntStorage", b"K\x02") + b"a"
    tree += tensor(b"FloatStorage", b"K\x03") + b"a."
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("m/data.pkl", tree)
        archive.writestr("m/data/0", bytes(range(8)))
    found = kit.open(buffer.getvalue())
    assert kit.values(found.tensors["0"]) == kit.values(found.tensors["1"]) == bytes(range(8))
    with pytest.raises(UserError, match="has 8 bytes; the pickle says 12"):
        kit.values(found.tensors["2"])


def test_a_storage_on_the_meta_device(kit: Any) -> None:
    storage = b"(" + STORAGE + FLOATS + b"K\x00X\x04\x00\x00\x00metaK\x02tQ"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(
            "m/data.pkl",
            b"ctorch._utils\n_rebuild_tensor\n(" + storage + b"K\x00K\x02\x85K\x01\x85tR.",
        )
    with pytest.raises(UserError, match="meta device"):
        kit.values(kit.open(buffer.getvalue()).tensors["tensor"])
