"""The zip directory: everything that lies is refused, everything that writers really write is read."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Any

import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.readers import torch_zip
from hfconvert.readers.torch_zip import Entry, read_directory

FILES = {"m/data.pkl": b"N.", "m/data/0": bytes(40), "m/data/empty": b"", "m/version": b"3\n"}


def zipped(files: Any = None, *, method: int = zipfile.ZIP_STORED, comment: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in (files or FILES).items():
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=method)
        archive.comment = comment
    return buffer.getvalue()


def held(source: Any, entry: Entry) -> bytes:
    return bytes(source.data[entry.start : entry.start + entry.size])


@pytest.mark.parametrize("comment", [b"", b"a comment", b"PK\x05\x06" + bytes(30)])
def test_entries_lie_where_the_directory_says(kit: Any, comment: bytes) -> None:
    source = kit.source(zipped(comment=comment))
    _, entries = read_directory(source)
    assert {name: held(source, entry) for name, entry in entries.items()} == FILES


def test_bytes_in_front_of_the_zip_are_passed_over(kit: Any) -> None:
    source = kit.source(b"#!/bin/sh\n" * 20 + zipped())
    assert {name: held(source, entry) for name, entry in read_directory(source)[1].items()} == FILES


def test_sizes_beyond_32_bits_come_from_the_zip64_field(kit: Any) -> None:
    """zipfile writes ZIP64 fields when it does not know the size, as for a stream."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w") as archive,
        archive.open("m/a", "w", force_zip64=True) as entry,
    ):
        entry.write(b"abc")
    source = kit.source(buffer.getvalue())
    assert held(source, read_directory(source)[1]["m/a"]) == b"abc"


def test_what_torch_writes_has_a_zip64_directory(kit: Any) -> None:
    data = kit.save({"w": 1})
    assert b"PK\x06\x06" in data
    assert "data.pkl" in " ".join(read_directory(kit.source(data))[1])


def test_reading_costs_small_reads_only(kit: Any) -> None:
    source = kit.source(zipped({"a/data.pkl": b"N.", "a/data/0": bytes(5_000_000)}))
    read_directory(source)
    assert sum(stop - start for start, stop in source.reads) < 70_000


def patched(data: bytes, old: bytes, new: bytes, *, after: bytes = b"") -> bytes:
    """The bytes with the first `old` after a mark replaced."""
    at = data.index(old, data.index(after) if after else 0)
    return data[:at] + new + data[at + len(old) :]


def directory_field(data: bytes, offset: int, form: str, value: int, entry: int = 0) -> bytes:
    """One field of an entry of the central directory set to another value."""
    at = -1
    for _ in range(entry + 1):
        at = data.index(b"PK\x01\x02", at + 1)
    return (
        data[: at + offset] + struct.pack(form, value) + data[at + offset + struct.calcsize(form) :]
    )


def local_field(data: bytes, offset: int, form: str, value: int) -> bytes:
    return data[:offset] + struct.pack(form, value) + data[offset + struct.calcsize(form) :]


def grown(data: bytes, size: int) -> bytes:
    """The first entry with another size, in its header and in the directory."""
    for offset in (18, 22):
        data = local_field(data, offset, "<L", size)
    for offset in (20, 24):
        data = directory_field(data, offset, "<L", size)
    return data


PLAIN = zipped()
END = PLAIN.rindex(b"PK\x05\x06")

LIES = {
    "cut off": (PLAIN[:-30], "without an end"),
    "bytes added": (PLAIN + b"x", "without an end"),
    "no directory": (b"PK\x03\x04" + bytes(60), "without an end"),
    "several disks": (local_field(PLAIN, END + 4, "<H", 1), "several files"),
    "more entries": (
        local_field(local_field(PLAIN, END + 8, "<H", 9), END + 10, "<H", 9),
        "cannot be",
    ),
    "fewer entries": (
        local_field(local_field(PLAIN, END + 8, "<H", 3), END + 10, "<H", 3),
        "to spare",
    ),
    "directory beyond the start": (local_field(PLAIN, END + 16, "<L", 1 << 20), "cannot be"),
    "saturated without zip64": (local_field(PLAIN, END + 16, "<L", 0xFFFFFFFF), "ZIP64"),
    "encrypted": (directory_field(PLAIN, 8, "<H", 1), "encrypted"),
    "patched": (directory_field(PLAIN, 8, "<H", 0x20), "encrypted or patched"),
    "strongly encrypted": (directory_field(PLAIN, 8, "<H", 0x40), "encrypted"),
    "encrypted by its header": (local_field(PLAIN, 6, "<H", 1), "disagree"),
    "another name": (patched(PLAIN, b"m/data.pkl", b"m/data.pkX"), "different names"),
    "another method": (local_field(PLAIN, 8, "<H", 8), "disagree"),
    "another size": (local_field(PLAIN, 22, "<L", 7), "disagree"),
    "another checksum": (local_field(PLAIN, 14, "<L", 7), "disagree"),
    "overlapping": (grown(PLAIN, 200), "overlaps"),
    "pointing outside": (directory_field(PLAIN, 42, "<L", 1 << 30), "outside"),
    "pointing at data": (directory_field(PLAIN, 42, "<L", 5, entry=1), "overlaps"),
    "two at one place": (directory_field(PLAIN, 42, "<L", 0, entry=1), "overlaps"),
    "unknown disk": (directory_field(PLAIN, 34, "<H", 3), "damaged"),
    "damaged": (patched(PLAIN, b"PK\x01\x02", b"PK\x01\x00"), "damaged"),
    "up and out": (zipped({"m/../../x": b""}), "outside of the archive"),
    "absolute": (zipped({"/etc/passwd": b""}), "outside of the archive"),
    "of windows": (zipped({"..\\x": b""}), "outside of the archive"),
    "a drive": (zipped({"C:\\x": b""}), "outside of the archive"),
    "utf-8 that is none": (patched(zipped({"é": b""}), "é".encode(), b"\xff\xff"), "names"),
}


@pytest.mark.parametrize("case", LIES)
def test_a_zip_that_lies_is_refused(kit: Any, case: str) -> None:
    data, match = LIES[case]
    with pytest.raises(UserError, match=match) as caught:
        read_directory(kit.source(data))
    assert caught.value.exit is Exit.SOURCE
    assert "model.pt" in str(caught.value)


def test_a_name_that_stands_twice(kit: Any) -> None:
    data = zipped({"m/data/0": b"a", "m/data/1": b"b"}).replace(b"m/data/1", b"m/data/0")
    with pytest.raises(UserError, match="'m/data/0' stands twice"):
        read_directory(kit.source(data))


def test_too_many_entries(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_zip, "MAX_ENTRIES", 3)
    with pytest.raises(UserError, match="directory of 4 entries"):
        read_directory(kit.source(PLAIN))


def test_every_cut_of_a_real_file_is_refused(kit: Any) -> None:
    data = kit.save({"w": 1})
    for cut in range(0, len(data), 7):
        with pytest.raises(UserError):
            kit.open(data[:cut])
