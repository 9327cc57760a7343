from __future__ import annotations

import io
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from hfconvert.console import Console
from hfconvert.errors import source_problem
from hfconvert.findings import info, warning

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(("verbosity", "said"), [(-1, []), (0, ["note"]), (1, ["note", "detail"])])
def test_how_much_is_said(capsys: Captured, verbosity: int, said: list[str]) -> None:
    console = Console(verbosity=verbosity)
    console.note("note")
    console.detail("detail")
    out, err = capsys.readouterr()
    assert (out, err.split()) == ("", said)


@pytest.mark.parametrize(("verbosity", "notes"), [(-1, 0), (0, 0), (1, 1)])
def test_warnings_are_always_said_and_notes_to_those_who_ask(
    capsys: Captured, verbosity: int, notes: int
) -> None:
    console = Console(verbosity=verbosity)
    console.finding(warning("source", "model.bin", "it is odd", "look at it"))
    console.finding(info("source", "", "it is usual"))
    _, err = capsys.readouterr()
    assert err == "warning: model.bin: it is odd\n  look at it\n" + "info: it is usual\n" * notes


def test_a_problem_is_said_however_quiet(capsys: Captured) -> None:
    Console(verbosity=-1).problem(source_problem("gone", why="cut", do="fetch", subject="a.bin"))
    assert capsys.readouterr().err == "error: a.bin: gone\n  why: cut\n  do:  fetch\n"


def test_a_document_is_json_in_ascii(capsys: Captured) -> None:
    document = {"name": "é\udcff\U0001f600", "sizes": [1, 2]}
    Console(as_json=True).document(document)
    out, err = capsys.readouterr()
    out.encode("ascii")
    assert (json.loads(out), err) == (document, "")


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "é\\udcff"), ("ascii", "\\xe9\\udcff")])
def test_text_is_shown_as_the_terminal_can(
    monkeypatch: pytest.MonkeyPatch, encoding: str, shown: str
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding, errors="strict"))
    Console().result("é\udcff")
    assert raw.getvalue().decode(encoding) == shown + "\n"


def test_no_name_acts_on_a_terminal(capsys: Captured) -> None:
    name = "a\x1b[31m\x9b2J\u202eb\r"
    shown = "a\\x1b[31m\\x9b2J\\u202eb\\r"
    console = Console(verbosity=1)
    console.result(f"{name}\nnext é")
    console.note(name)
    console.finding(warning("source", name, name, name))
    console.problem(source_problem(name, why=name, do=name, subject=name))
    out, err = capsys.readouterr()
    assert out == f"{shown}\nnext é\n"
    assert err == (
        f"{shown}\nwarning: {shown}: {shown}\n  {shown}\n"
        f"error: {shown}: {shown}\n  why: {shown}\n  do:  {shown}\n"
    )


def test_no_name_begins_a_line(capsys: Captured) -> None:
    name = "w\n::error::x\r\u2028y"
    shown = "w\\n::error::x\\r\\u2028y"
    console = Console(verbosity=1)
    console.note(name)
    console.detail(name)
    console.finding(warning("source", name, name))
    console.problem(source_problem(name, why=name, do="act", subject=name))
    assert capsys.readouterr().err.splitlines() == [
        shown,
        shown,
        f"warning: {shown}: {shown}",
        f"error: {shown}: {shown}",
        f"  why: {shown}",
        "  do:  act",
    ]


def test_no_bar_where_nobody_looks(capsys: Captured) -> None:
    with Console().progress("convert", 100) as advance:
        advance(100)
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    """What stderr is for somebody who sits before it."""

    def isatty(self) -> bool:
        return True


def _sit_before_it(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    return shown


def test_a_bar_counts_the_bytes_of_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _sit_before_it(monkeypatch)
    with Console().progress("convert", 1000) as advance, ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(advance, 10) for _ in range(100)]:
            done.result()
    assert "convert" in terminal.getvalue()


def test_the_quiet_see_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _sit_before_it(monkeypatch)
    with Console(verbosity=-1).progress("convert", 1000) as advance:
        advance(1000)
    assert terminal.getvalue() == ""


def test_without_bars_lines_say_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that a workflow gives its steps: a command has to begin a line."""
    terminal = _sit_before_it(monkeypatch)
    console = Console(bars=False)
    with console.progress("convert", 1000) as advance:
        advance(1000)
    console.done("model.safetensors")
    console.command("::endgroup::")
    assert terminal.getvalue() == "model.safetensors\n::endgroup::\n"


def test_parts_are_said_only_where_no_bar_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = _sit_before_it(monkeypatch)
    Console().done("model.safetensors")
    assert terminal.getvalue() == ""
    monkeypatch.setenv("TERM", "dumb")
    Console().done("model.safetensors")
    assert terminal.getvalue() == "model.safetensors\n"
