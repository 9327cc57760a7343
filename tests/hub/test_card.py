"""The section of ours in a model card: whatever stood between the marks goes, all around it stays."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from hfconvert.hub.card import BEGIN, END, _without_sections

_SECTION = re.compile(rf"\n*{re.escape(BEGIN)}.*?{re.escape(END)}\n*", re.DOTALL)


@given(st.lists(st.sampled_from([BEGIN, END, "\n", "\n\n", "a", "---\n"])).map("".join))
def test_sections_go_and_an_empty_line_stays(text: str) -> None:
    assert _without_sections(text) == _SECTION.sub("\n\n", text)


def test_a_card_that_was_made_to_keep_it_busy_does_not() -> None:
    """By a pattern, each of these would take hours."""
    for text in ("\n" * 3_000_000 + "end", BEGIN * 200_000):
        assert _without_sections(text) == text
    assert _without_sections(f"{BEGIN}{END}" * 200_000) == "\n\n" * 200_000
