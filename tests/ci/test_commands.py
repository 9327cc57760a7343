from __future__ import annotations

import re
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.ci.commands import MOST_LETTERS, annotation, grouped, mask, obeying_nothing
from hfconvert.console import Console

Captured = pytest.CaptureFixture[str]
_COMMAND = re.compile(r"::(?P<name>[a-z-]+)(?: (?P<properties>[^:]*))?::(?P<data>.*)", re.DOTALL)


def obeyed(line: str) -> tuple[str, dict[str, str], str]:
    """The command as GitHub's runner reads it: first `::`, then `,` and `=`, then the escapes."""
    found = _COMMAND.fullmatch(line)
    assert found
    pairs = [one.partition("=") for one in (found["properties"] or "").split(",") if one]
    properties = {name: unescaped(value, ":,") for name, _, value in pairs}
    return found["name"], properties, unescaped(found["data"], "")


def unescaped(text: str, more: str) -> str:
    for one in ["\r", "\n", *more]:
        text = text.replace(urllib.parse.quote(one, safe=""), one)
    return text.replace("%25", "%")


@given(st.text(), st.text(min_size=1))
def test_whatever_is_said_arrives_as_it_is_on_one_line(message: str, title: str) -> None:
    line = annotation("error", message, title=title)
    assert not {"\r", "\n"} & set(line)
    assert obeyed(line) == ("error", {"title": title}, message)


def test_an_annotation_has_a_place() -> None:
    line = annotation("warning", "50% of it\nnext", file="a,b:c.yaml", line="3", col="7")
    assert line == "::warning file=a%2Cb%3Ac.yaml,line=3,col=7::50%25 of it%0Anext"
    assert annotation("notice", "x", file="", title="") == "::notice::x"


@pytest.mark.parametrize("over", [0, 1, 100_000])
def test_a_long_message_is_cut_where_the_runner_would(over: int) -> None:
    _, _, message = obeyed(annotation("error", "%" * (MOST_LETTERS + over)))
    assert len(message) == MOST_LETTERS
    assert message.endswith("..." if over else "%%%")


def test_each_line_of_a_secret_is_masked() -> None:
    assert [*mask("hf_one\n\nhf_t%wo\n")] == ["::add-mask::hf_one", "::add-mask::hf_t%25wo"]


def test_a_group_has_a_title_of_one_line(capsys: Captured) -> None:
    with grouped(Console(), "a\n::error::b"):
        Console().note("within")
    said = capsys.readouterr().err.splitlines()
    assert said == ["::group::a%0A::error::b", "within", "::endgroup::"]


def test_nothing_within_is_obeyed_and_nobody_can_guess_the_word(capsys: Captured) -> None:
    words = set()
    for _ in range(2):
        with obeying_nothing(Console()):
            Console().note("::error::x")
        first, said, last = capsys.readouterr().err.splitlines()
        word = first.removeprefix("::stop-commands::")
        assert (said, last) == ("::error::x", f"::{word}::")
        assert re.fullmatch("[0-9a-f]{32}", word)
        words.add(word)
    assert len(words) == 2


def test_after_a_bug_nothing_is_obeyed_any_more(capsys: Captured) -> None:
    with pytest.raises(ZeroDivisionError), obeying_nothing(Console()):
        raise ZeroDivisionError
    (only,) = capsys.readouterr().err.splitlines()
    assert only.startswith("::stop-commands::")
