"""Tar archives, and torch's oldest container, which torch still reads when it is let run pickles."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from hfconvert.errors import UserError
from hfconvert.readers.torch_tar import is_tar, read_members

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def tarred(files: Any, form: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


class Saved:
    """Puts its persistent id into a pickle, as torch 0.1 did for tensors."""

    def __init__(self, key: int) -> None:
        self.key = key


class Pickler(pickle._Pickler):
    def persistent_id(self, value: Any) -> Any:
        return str(value.key) if isinstance(value, Saved) else None


def old_pickle(value: Any) -> bytes:
    buffer = io.BytesIO()
    Pickler(buffer, 2).dump(value)
    return buffer.getvalue()


def storage_class(name: str) -> bytes:
    return b"ctorch\n" + name.encode() + b"\n"


def entry(key: int, location: bytes, kind: bytes) -> bytes:
    return b"\x80\x02(" + pickle.dumps(key, 2)[2:-1] + location + kind + b"t."


CPU = b"X\x03\x00\x00\x00cpu"
MATRIX = struct.pack("<4f", 1.0, 2.0, 3.0, 4.0)


def tensor_entry(
    key: int, storage: int, shape: list[int], strides: list[int], offset: int = 0
) -> bytes:
    numbers = struct.pack(f"<{2 * len(shape) + 1}q", *shape, *strides, offset)
    front = entry(key, pickle.dumps(storage, 2)[2:-1], b"ctorch\nFloatTensor\n")
    return front + struct.pack("<2i", len(shape), 0) + numbers


def container(**changes: Any) -> dict[str, Any]:
    """A 2 x 2 tensor, its transpose, and a part of its storage, as torch 0.1 saved them."""
    storages = pickle.dumps(1, 2) + entry(1, CPU, storage_class("FloatStorage"))
    storages += struct.pack("<q", 4) + MATRIX + pickle.dumps([(2, 1, 1, 2)], 2)
    tensors = pickle.dumps(3, 2) + tensor_entry(10, 1, [2, 2], [2, 1])
    tensors += tensor_entry(11, 1, [2, 2], [1, 2]) + tensor_entry(12, 2, [2], [1])
    files = {
        "sys_info": pickle.dumps({"protocol_version": 1000, "little_endian": True}, 2),
        "pickle": old_pickle({"w": Saved(10), "t": Saved(11), "part": Saved(12)}),
        "storages": storages,
        "tensors": tensors,
    }
    return {**files, **changes}


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_the_oldest_container_reads_as_torch_reads_it(kit: Any, form: int, tmp_path: Path) -> None:
    data = tarred(container(), form)
    (tmp_path / "old.pt").write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = torch.load(tmp_path / "old.pt", weights_only=False)
    found = kit.open(data)
    assert found.file.container == "tar"
    assert {name: kit.values(lazy) for name, lazy in found.tensors.items()} == {
        name: kit.raw(tensor) for name, tensor in expected.items()
    }
    assert kit.values(found.tensors["part"]) == MATRIX[4:12]


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no tensors": ({"tensors": None}, "'tensors' is missing"),
    "cut storages": ({"storages": container()["storages"][:60]}, "cut off|middle|past the end"),
    "unknown storage": (
        {"tensors": pickle.dumps(1, 2) + tensor_entry(10, 9, [2], [1])},
        "without storage",
    ),
    "negative stride": (
        {"tensors": pickle.dumps(1, 2) + tensor_entry(10, 1, [2], [-1])},
        "negative size",
    ),
    "too many dimensions": (
        {"tensors": pickle.dumps(1, 2) + tensor_entry(10, 1, [1] * 40, [1] * 40)},
        "too many dimensions",
    ),
    "unknown tensor": ({"pickle": old_pickle(Saved(99))}, "not there"),
    "no count": ({"tensors": pickle.dumps("x", 2)}, "no size"),
    "odd storage": (
        {"storages": pickle.dumps(1, 2) + entry(1, CPU, b"cos\nsystem\n")},
        r"class os\.system",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_container_is_refused(kit: Any, case: str) -> None:
    changes, match = BROKEN[case]
    files = {name: data for name, data in container(**changes).items() if data is not None}
    with pytest.raises(UserError, match=match):
        kit.open(tarred(files))


def test_a_tensor_outside_of_its_storage(kit: Any) -> None:
    tensors = pickle.dumps(1, 2) + tensor_entry(10, 1, [2, 3], [3, 1])
    found = kit.open(tarred(container(tensors=tensors, pickle=old_pickle(Saved(10)))))
    with pytest.raises(UserError, match="element 5 of a storage of 4"):
        kit.values(found.tensors["tensor"])


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("name", ["a", "folder/" * 12 + "weights.th"])
def test_members_by_name(kit: Any, form: int, name: str) -> None:
    source = kit.source(tarred({name: b"abc", "empty": b""}, form))
    members = read_members(source)
    assert {key: bytes(source.data[m.start : m.start + m.size]) for key, m in members.items()} == {
        name: b"abc",
        "empty": b"",
    }


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../b", "..\\x", "C:\\x"])
@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_names_that_reach_outside(kit: Any, form: int, name: str) -> None:
    with pytest.raises(UserError, match="reaches outside"):
        read_members(kit.source(tarred({name: b""}, form)))


def test_links_are_no_members(kit: Any) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert read_members(kit.source(buffer.getvalue())) == {}


def test_a_cut_tar_is_refused(kit: Any) -> None:
    with pytest.raises(UserError, match="cut off"):
        read_members(kit.source(tarred({"a": bytes(2000)})[:1500]))


def test_a_damaged_header_is_refused(kit: Any) -> None:
    data = bytearray(tarred({"a": b"", "b": b""}))
    data[512 + 5] ^= 1
    with pytest.raises(UserError, match="byte 512 is damaged"):
        read_members(kit.source(bytes(data)))


def test_a_member_that_stands_twice(kit: Any) -> None:
    one = tarred({"a": b"x"})[:1024]
    with pytest.raises(UserError, match="twice"):
        read_members(kit.source(one + one + bytes(1024)))


def test_zeros_are_no_tar() -> None:
    assert not is_tar(bytes(512))
    assert not is_tar(b"ustar")


def header(name: bytes, size: bytes, kind: bytes = b"0", magic: bytes = b"ustar\0") -> bytes:
    """A tar header by hand, its checksum right."""
    block = bytearray(512)
    block[0 : len(name)] = name
    block[124 : 124 + len(size)] = size
    block[156:157] = kind
    block[257:263] = magic
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block)


def test_sizes_of_gnu_tar_may_be_binary(kit: Any) -> None:
    data = header(b"a", b"\x80" + (3).to_bytes(11, "big")) + b"abc".ljust(512, b"\0")
    assert read_members(kit.source(data))["a"].size == 3


def test_names_of_ustar_have_a_prefix(kit: Any) -> None:
    block = bytearray(header(b"name", b"00000000000\0"))
    block[345:351] = b"prefix"
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    assert list(read_members(kit.source(bytes(block)))) == ["prefix/name"]


@pytest.mark.parametrize("size", [b"99999999999\0", b"\xff" * 12, b"abc", b"77777777777\0"])
def test_sizes_that_are_none(kit: Any, size: bytes) -> None:
    with pytest.raises(UserError, match=r"damaged|cut off"):
        read_members(kit.source(header(b"a", size) + bytes(1024)))


def told(data: bytes, kind: bytes) -> bytes:
    return header(b"x", b"%011o\0" % len(data), kind) + data.ljust(
        -(-len(data) // 512) * 512, b"\0"
    )


def test_a_pax_header_may_say_the_size(kit: Any) -> None:
    data = told(b"10 size=3\n", b"x") + header(b"a", b"00000000000\0") + b"abc".ljust(512, b"\0")
    assert read_members(kit.source(data))["a"].size == 3


@pytest.mark.parametrize(
    "line", [b"11 size=-3\n", b"30 size=9999999999999999999999\n", b"10 size=x\n"]
)
def test_a_pax_header_with_a_size_that_is_none(kit: Any, line: bytes) -> None:
    with pytest.raises(UserError, match="size that is none"):
        read_members(kit.source(told(line, b"x") + header(b"a", b"00000000000\0")))


def test_a_name_of_a_megabyte(kit: Any) -> None:
    with pytest.raises(UserError, match="name or header of 1048576 bytes"):
        read_members(kit.source(told(b"a" * (1 << 20), b"L")))


def test_headers_without_end(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hfconvert.readers.torch_tar.MAX_MEMBERS", 5)
    with pytest.raises(UserError, match="more than 5 members"):
        read_members(kit.source(told(b"a", b"L") * 6))
