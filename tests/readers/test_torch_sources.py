"""Sources within sources."""

from __future__ import annotations

import gc
import os
import zlib
from typing import Any

import pytest

from hfconvert.errors import UserError
from hfconvert.readers.torch_sources import (
    Inflated,
    Memory,
    Section,
    Spool,
    deflated,
    flattened,
    open_entry,
)
from hfconvert.readers.torch_zip import Entry
from hfconvert.tensors.source import read

DATA = bytes(range(200)) * 50


def raw(data: bytes) -> bytes:
    engine = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return engine.compress(data) + engine.flush()


def test_a_section_is_a_part(kit: Any) -> None:
    section = Section(kit.source(DATA), "f/part", 100, 50)
    assert bytes(read(section, 10, 50)) == DATA[110:150]
    for start, stop in ((40, 51), (50, 51)):
        with pytest.raises(UserError, match="f/part: a read reaches beyond byte 50"):
            read(section, start, stop)


def test_a_section_of_a_section_is_flat(kit: Any) -> None:
    base = kit.source(DATA)
    inner = Section(Section(base, "a", 100, 500), "b", 20, 30)
    assert flattened(inner, 5) == (base, 125)
    assert bytes(read(inner, 5, 10)) == DATA[125:130]


def test_a_section_stages_its_base() -> None:
    staged: list[Any] = []

    class Remote:
        name, size = "r", 1000

        def readinto(self, buffer: memoryview, offset: int) -> None:
            raise AssertionError("not to be read")

        def stage(self, ranges: Any) -> None:
            staged.extend(ranges)

    Section(Remote(), "s", 100, 50).stage([(0, 10), (20, 30)])
    Inflated(Remote(), "i", 7, 20, 90, 0).stage([(50, 60)])
    Inflated(Remote(), "i", 7, 20, 90, 0).stage([])
    assert staged == [(100, 110), (120, 130), (7, 27)]


def test_bytes_in_memory() -> None:
    memory = Memory("m", DATA)
    memory.stage([(0, 1)])
    assert bytes(read(memory, 5, 9)) == DATA[5:9]
    with pytest.raises(UserError, match="beyond"):
        read(memory, memory.size - 1, memory.size + 1)


def test_a_spool_goes_away_with_its_last_use(kit: Any) -> None:
    spool = Spool.of("s", [b"abc", b"def"], kit.source(b""), 100)
    descriptor = spool._file.fileno()
    assert (spool.size, bytes(read(spool, 2, 5))) == (6, b"cde")
    with pytest.raises(UserError, match="beyond byte 6"):
        read(spool, 5, 8)
    spool.stage([(0, 1)])
    del spool
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_an_entry_is_inflated_at_its_first_read(kit: Any) -> None:
    packed = raw(DATA)
    source = kit.source(b"xx" + packed)
    inflated = Inflated(source, "e", 2, len(packed), len(DATA), zlib.crc32(DATA))
    assert source.reads == []
    assert bytes(read(inflated, 100, 300)) == DATA[100:300]
    count = len(source.reads)
    assert bytes(read(inflated, 0, len(DATA))) == DATA
    assert len(source.reads) == count


@pytest.mark.parametrize(
    ("size", "crc"), [(len(DATA) + 1, zlib.crc32(DATA)), (len(DATA) - 1, 0), (len(DATA), 5)]
)
def test_an_entry_that_is_not_what_it_says(kit: Any, size: int, crc: int) -> None:
    packed = raw(DATA)
    inflated = Inflated(kit.source(packed), "e", 0, len(packed), size, crc)
    with pytest.raises(UserError, match="unpack"):
        read(inflated, 0, 1)


def test_damaged_data(kit: Any) -> None:
    source = kit.source(b"\xff" * 100)
    with pytest.raises(UserError, match="packed data is damaged"):
        list(deflated(source, 0, 100))


def test_blocks_are_bounded(kit: Any) -> None:
    packed = raw(bytes(8_000_000))
    sizes = [len(block) for block in deflated(kit.source(packed), 0, len(packed))]
    assert sum(sizes) == 8_000_000
    assert max(sizes) <= 1 << 20


@pytest.mark.parametrize(
    ("entry", "match"),
    [
        (Entry("e", 14, 0, 10, 10, 0), "method 14"),
        (Entry("e", 0, 0, 10, 11, 0), "method 0"),
        (Entry("e", 8, 0, 10, 1 << 30, 0), "10 bytes unpack to 1073741824"),
    ],
    ids=["unknown method", "stored of two sizes", "expands too far"],
)
def test_entries_that_are_not_opened(kit: Any, entry: Entry, match: str) -> None:
    with pytest.raises(UserError, match=match):
        open_entry(kit.source(DATA), entry)
