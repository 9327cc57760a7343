from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hfconvert.cli import app
from hfconvert.report.summary import code, plain, summary


@pytest.fixture
def ran(tmp_path: Path) -> Any:
    """Run a recipe over a small checkpoint; the JSON document and the Markdown of its report."""

    def run(state: dict[str, Any], **recipe: Any) -> tuple[dict[str, Any], str]:
        torch.save(state, tmp_path / "w.pt")
        document = {"version": 1, "source": {"path": "w.pt"}, **recipe}
        (tmp_path / "recipe.yaml").write_text(json.dumps(document))
        report = tmp_path / "report.md"
        arguments = ["run", str(tmp_path / "recipe.yaml"), "--output", str(tmp_path / "out")]
        done = CliRunner().invoke(app, [*arguments, "--json", "-q", "--report", str(report)])
        return json.loads(done.stdout), report.read_text()

    return run


def lines(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


def test_what_was_done_stands_in_it(ran: Any) -> None:
    weight = torch.ones(10, 4)
    state = {"a": weight, "b": weight, "norm": torch.ones(4), "old": torch.ones(3)}
    document, text = ran(
        state,
        key_map=[{"drop": ["old"]}],
        dtype={"default": "float16", "rules": {"norm": "keep"}},
    )
    assert lines(text, "**converted**")
    (file,) = document["outputs"]
    assert f"| `w.safetensors` | {file['size']} B | `{file['sha256']}` |" in text
    assert lines(text, "| source") == ["| source | F32 | 47 | 4 | 188 B |"]
    assert lines(text, "| result") == [
        "| result | F16 | 40 | 2 | 80 B |",
        "| result | F32 | 4 | 4 | 16 B |",
    ]
    assert "4 tensors became 2: 1 unchanged, 1 cast, 1 dropped, 1 tied." in text
    assert "188 B became 96 B: left out -12 B, cast -80 B." in text
    assert "- 1 tensor dropped by `drop: old`: `old`" in text
    assert "- written once: `b is a`" in text
    assert "| tensors | passed | tensors 2, values 44, different 0 |  |" in text
    assert "body 1 F32 -\\> 1 F16" in text
    assert "No pickle was executed." in text
    opening = document["opening"]
    before, after = (f"{1000 * opening[f'{when}_seconds']:.1f} ms" for when in ("before", "after"))
    assert f"Opens in {after}, was {before} (to the first tensor, read by hfconvert)." in text
    assert f"Digest `{document['digest']}`." in text


def test_a_failure_says_what_is_wrong(ran: Any) -> None:
    _, text = ran({"w": torch.full((3,), 1e6)}, dtype="float16")
    assert lines(text, "**failed**")
    assert "| dtypes | **failed** |" in text
    assert "3 of 3 values overflow F16" in text
    assert lines(text, "- error: the check")


def test_a_run_that_did_not_come_about(ran: Any) -> None:
    document, text = ran({"w": torch.ones(2)}, key_map=[{"drop": ["nothing"]}])
    assert document["status"] == "failed"
    (line,) = lines(text, "- error")
    assert "matched 0 keys" in line


HOSTILE = [
    "a`b",
    "``",
    "|x|",
    "<img src=x onerror=alert(1)>",
    "@everyone",
    "[x](http://example.org)",
    "line\n\n# title",
    "![](x)",
    "</details>",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_format_nothing(name: str) -> None:
    finding = {"level": "warning", "check": "x", "subject": name, "message": name, "hint": name}
    output = {"file": name, "size": 1, "sha256": "0"}
    document = {
        "status": "converted",
        "source": {"path": name, "format": name, "files": []},
        "outputs": [output],
        "totals": None,
        "dropped": [{"name": name, "rule": name}],
        "ties": [{"kept": name, "dropped": name}],
        "checks": [{"name": name, "status": "pass", "measured": {}, "limit": {}, "detail": name}],
        "findings": [finding],
        "pickle": [{"file": name, "imports": [], "stubbed": [], "dangerous": []}],
        "versions": {},
        "seconds": None,
        "peak_memory_bytes": 1,
        "digest": None,
    }
    text = summary(document)
    for line in text.splitlines():
        assert line == "" or line[0] in "|*-N01"
        outside = outside_of_code(line)
        assert not any(sign in unescaped(outside) for sign in "<@[]!`#"), line
        if line.startswith("|"):
            assert unescaped(line).count("|") in (4, 5)


def outside_of_code(line: str) -> str:
    """The line without its spans of code: a run of backquotes up to the next run of the same length."""
    out, position = "", 0
    while position < len(line):
        if line[position] != "`" or (position and line[position - 1] == "\\"):
            out += line[position]
            position += 1
            continue
        width = len(line[position:]) - len(line[position:].lstrip("`"))
        runs = [run for run in re.finditer("`+", line) if run.start() > position]
        closing = next(run for run in runs if len(run[0]) == width)
        position = closing.end()
    return out


def unescaped(line: str) -> str:
    """The line without what a backslash takes the meaning of."""
    out, position = "", 0
    while position < len(line):
        step = 2 if line[position] == "\\" else 1
        out += line[position] if step == 1 else ""
        position += step
    return out


@given(st.text())
def test_code_is_one_span_of_one_line(text: str) -> None:
    shown = code(text)
    assert "\n" not in shown
    assert outside_of_code(shown) == ""


@given(st.text())
def test_plain_text_has_no_live_signs(text: str) -> None:
    assert not any(sign in unescaped(plain(text)) for sign in "`*_[]()<>#!|@")


def test_long_lists_are_cut() -> None:
    document = {
        "status": "converted",
        "outputs": [
            {"file": f"model-{number:05}.safetensors", "size": 1, "sha256": "0"}
            for number in range(1000)
        ],
        "checks": [],
        "findings": [
            {"level": "warning", "check": "", "subject": str(n), "message": "", "hint": ""}
            for n in range(1000)
        ],
        "pickle": [],
        "versions": {},
        "peak_memory_bytes": 1,
    }
    text = summary(document)
    assert "| ... 980 more | | |" in text
    assert "| `model-00999.safetensors` |" in text
    assert "- and 980 more" in text
    assert len(text) < 5000
