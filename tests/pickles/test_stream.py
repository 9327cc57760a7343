"""The stream of a pickle: every byte once, in order, in small reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.pickles import stream as module
from hfconvert.pickles.stream import EndOfPickleError, Stream

DATA = bytes(range(256)) * 40


@given(
    st.integers(0, 500),
    st.lists(
        st.tuples(st.sampled_from(["take", "skip", "byte"]), st.integers(0, 400)), max_size=40
    ),
    st.sampled_from([1, 7, 64, 100_000]),
)
def test_it_gives_what_lies_there(
    source: Callable[..., Any], start: int, steps: list[tuple[str, int]], chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK", chunk)
        stop = len(DATA) - 300
        stream = Stream(source(DATA), start, stop)
        position = start
        for step, count in steps:
            size = 1 if step == "byte" else count
            if position + size > stop:
                with pytest.raises(EndOfPickleError):
                    stream.byte() if step == "byte" else getattr(stream, step)(count)
                return
            if step == "take":
                assert stream.take(count) == DATA[position : position + count]
            elif step == "byte":
                assert stream.byte() == DATA[position]
            else:
                assert stream.skip(count) == position
            position += size
            assert (stream.position, stream.left) == (position, stop - position)


def test_what_is_skipped_is_not_read(source: Callable[..., Any]) -> None:
    data = source(bytes(10_000_000))
    stream = Stream(data, 0, data.size)
    stream.take(4)
    stream.skip(9_000_000)
    stream.take(4)
    assert sum(stop - start for start, stop in data.reads) < 200_000


def test_nothing_is_read_twice(source: Callable[..., Any]) -> None:
    data = source(DATA)
    stream = Stream(data, 0, data.size)
    while stream.left:
        stream.take(min(11, stream.left))
    assert sum(stop - start for start, stop in data.reads) == len(DATA)


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_lines(source: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    stream = Stream(source(b"one\n\nthree\nend"), 0, 14)
    assert [stream.line(), stream.line(), stream.line()] == [b"one", b"", b"three"]
    with pytest.raises(EndOfPickleError):
        stream.line()


def test_a_long_line_is_refused_before_it_is_read(
    source: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", 100)
    monkeypatch.setattr(module, "MAX_LINE", 500)
    data = source(b"a" * 100_000)
    with pytest.raises(EndOfPickleError):
        Stream(data, 0, data.size).line()
    assert sum(stop - start for start, stop in data.reads) <= 700
