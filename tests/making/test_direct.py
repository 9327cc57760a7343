from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.making.direct import LEAST, WrittenFile
from hfconvert.tensors.pages import PAGE, pages

SIZE = 40 * PAGE + 123
DIRECT = getattr(os, "O_DIRECT", 0)
cuts = st.lists(st.integers(1, SIZE - 1), max_size=6, unique=True).map(sorted)


def _write_parts(path: Path, content: bytes, cuts: Sequence[int]) -> None:
    """The content in parts, from the last to the first, each from memory that lies as it should."""
    file = WrittenFile(path)
    for start, stop in reversed(list(zip([0, *cuts], [*cuts, len(content)], strict=True))):
        buffer = pages(stop - start)
        view = buffer[start % PAGE : start % PAGE + stop - start]
        view[:] = content[start:stop]
        file.write(view, start)
    file.close()


@given(cuts)
def test_parts_make_up_the_file(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    path = tmp_path_factory.mktemp("parts") / "file"
    content = random.Random(len(cuts)).randbytes(SIZE)
    _write_parts(path, content, cuts)
    assert path.read_bytes() == content


def test_memory_that_lies_anywhere_is_written_all_the_same(tmp_path: Path) -> None:
    content = random.Random(1).randbytes(SIZE)
    file = WrittenFile(tmp_path / "file")
    file.write(memoryview(bytearray(b"x" + content))[1:], 0)
    file.close()
    assert (tmp_path / "file").read_bytes() == content


@pytest.mark.parametrize("refuses", ["open", "pwrite"])
def test_a_file_system_that_refuses_gets_it_the_usual_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: str
) -> None:
    real_open, real_pwrite, past_cache = os.open, os.pwrite, set[int]()

    def opened(path: Any, flags: int, *rest: Any) -> int:
        if DIRECT and flags & DIRECT:
            if refuses == "open":
                raise OSError(22, "Invalid argument")
            flags &= ~DIRECT
            past_cache.add(descriptor := real_open(path, flags, *rest))
            return descriptor
        return real_open(path, flags, *rest)

    def pwrite(descriptor: int, data: Any, offset: int) -> int:
        if descriptor in past_cache:
            raise OSError(22, "Invalid argument")
        return real_pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "pwrite", pwrite)
    content = random.Random(2).randbytes(SIZE)
    _write_parts(tmp_path / "file", content, [5, PAGE, 20 * PAGE + 7])
    assert (tmp_path / "file").read_bytes() == content


def test_only_whole_pages_from_page_memory_pass_by_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What open(2) asks of O_DIRECT, whatever the file system of this machine makes of it."""
    real_open, real_pwrite = os.open, os.pwrite
    past_cache, written = set[int](), list[tuple[int, int]]()

    def opened(path: Any, flags: int, *rest: Any) -> int:
        descriptor = real_open(path, flags & ~DIRECT, *rest)
        if DIRECT and flags & DIRECT:
            past_cache.add(descriptor)
        return descriptor

    def pwrite(descriptor: int, data: memoryview, offset: int) -> int:
        if descriptor in past_cache:
            written.append((offset, data.nbytes))
        return real_pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "pwrite", pwrite)
    content = bytes(SIZE)
    _write_parts(tmp_path / "file", content, [PAGE + 1, PAGE + 1 + LEAST, 38 * PAGE])
    if DIRECT:  # elsewhere there is no such way
        first = (PAGE + 1 + LEAST + PAGE - 1) // PAGE * PAGE
        assert written == [(first, 38 * PAGE - first)]
    assert (tmp_path / "file").read_bytes() == content


def test_the_buffer_begins_at_a_page() -> None:
    for nbytes in (0, 1, PAGE, 3 * PAGE + 1):
        buffer = pages(nbytes)
        assert buffer.nbytes == nbytes + PAGE
