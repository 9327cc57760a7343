from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.hashing import BUFFER, OrderedHash, hash_bytes, hash_file


def _cut(content: bytes, cuts: list[int]) -> list[tuple[int, bytes]]:
    places = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
    return [(start, content[start:stop]) for start, stop in pairwise(places)]


@given(st.binary(min_size=1, max_size=200), st.lists(st.integers(1, 199)), st.randoms())
def test_parts_in_any_order_give_the_hash_of_the_whole(
    content: bytes, cuts: list[int], random: object
) -> None:
    parts = _cut(content, cuts)
    random.shuffle(parts)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    ordered = OrderedHash()
    with ThreadPoolExecutor(len(parts)) as pool:
        for future in [pool.submit(ordered.update, start, part) for start, part in parts]:
            future.result()
    assert ordered.hexdigest() == hashlib.sha256(content).hexdigest()


def test_a_part_waits_for_those_before_it() -> None:
    ordered = OrderedHash()
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(ordered.update, 3, b"def")
        assert not late.done()
        ordered.update(0, b"abc")
        late.result()
    assert ordered.hexdigest() == hash_bytes(b"abcdef")


def test_nobody_waits_for_a_part_that_never_comes() -> None:
    ordered = OrderedHash()
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(ordered.update, start, b"x") for start in (5, 9)]
        ordered.abandon()
        assert [future.result() for future in waiting] == [None, None]
    ordered.update(100, b"y")
    assert ordered.hexdigest() == hash_bytes(b"")


@pytest.mark.parametrize("size", [0, 1, BUFFER - 1, BUFFER, BUFFER + 1, 3 * BUFFER + 7])
def test_a_file_hashes_as_its_content(tmp_path: Path, size: int) -> None:
    content = bytes(range(251)) * (size // 251 + 1)
    (tmp_path / "x").write_bytes(content[:size])
    assert hash_file(tmp_path / "x") == hashlib.sha256(content[:size]).hexdigest()


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        hash_file(tmp_path / "x")
