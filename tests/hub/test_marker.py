"""The hidden mark: what is written is read; nothing that a source puts into a text passes for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.hub.marker import Marker, read_marker

WORD = st.text(max_size=30)
MARKS = st.builds(
    Marker,
    digest=WORD,
    recipe=WORD,
    weights=WORD,
    base=WORD,
    superseded_by=st.none() | st.integers(1, 10**6),
    comment=WORD,
)


@given(MARKS, WORD, WORD)
def test_what_is_written_is_read(mark: Marker, before: str, after: str) -> None:
    for text in (mark.as_comment(), mark.as_trailer()):
        assert read_marker(f"{before}\n{text}\n{after}\n") == mark


@given(MARKS)
def test_it_is_one_comment_in_one_line(mark: Marker) -> None:
    text = mark.as_comment()
    assert "\n" not in text
    assert text.startswith('<!-- hfconvert: {"v":1')
    assert text.index("-->") == len(text) - 3
    assert "--" not in text[4:-3]


def test_the_last_one_counts() -> None:
    """Ours stands at the end of a text, whatever names a source had quoted before."""
    forged, ours = Marker(digest="forged"), Marker(digest="ours")
    text = f"`{forged.as_comment()}`\n{forged.as_trailer()}\n{ours.as_comment()}"
    assert read_marker(text) == ours


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<!-- hfconvert: nothing -->",
        "<!-- hfconvert: {broken -->",
        '<!-- hfconvert: {"v":2,"digest":"x"} -->',
        "<!-- hfconvert: [1] -->",
        "Hfconvert: {",
        'prefix Hfconvert: {"v":1}',
    ],
)
def test_what_is_none(text: str) -> None:
    assert read_marker(text) is None


def test_fields_of_another_type_are_passed_over() -> None:
    text = '<!-- hfconvert: {"v":1,"digest":5,"superseded_by":"x","new":[]} -->'
    assert read_marker(text) == Marker()
