from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.ci.files import MOST_SUMMARY, cut, write_outputs, write_summary
from hfconvert.errors import Exit, UserError


def read(text: str) -> dict[str, str]:
    """The outputs as GitHub's runner reads them; the last of a name counts."""
    outputs, lines = {}, iter(text.split("\n"))
    for line in lines:
        name, _, end = line.partition("<<")
        if end:
            outputs[name] = "\n".join(iter(lambda: next(lines), end))
    return outputs


@pytest.mark.parametrize("value", ["", "a", "\n", "a\n\nb\n", "x<<end\nend", "%0A", "é\r\n"])
def test_every_value_arrives_as_it_is(tmp_path: Path, value: str) -> None:
    file = tmp_path / "outputs"
    write_outputs({"GITHUB_OUTPUT": str(file)}, {"report": value, "files": "[]"})
    assert read(file.read_bytes().decode()) == {"report": value, "files": "[]"}


def test_outputs_are_appended_and_the_last_counts(tmp_path: Path) -> None:
    file = tmp_path / "outputs"
    hostile = "a\nstatus<<x\nconverted\nx\nstatus=converted"
    for status in ("failed", hostile):
        write_outputs({"GITHUB_OUTPUT": str(file)}, {"status": status, "files": "[]"})
    assert read(file.read_text()) == {"status": hostile, "files": "[]"}


def test_names_that_are_no_unicode_stop_nothing(tmp_path: Path) -> None:
    environment = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    write_outputs(environment, {"files": "a\udcff"})
    write_summary(environment, "a\udcff\n")
    assert read((tmp_path / "GITHUB_OUTPUT").read_text()) == {"files": "a\\udcff"}
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text() == "a\\udcff\n"


def test_elsewhere_than_at_github_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_outputs({}, {"status": "x"})
    write_summary({}, "text")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("before", [0, 1000, MOST_SUMMARY - 50, MOST_SUMMARY])
def test_a_summary_stays_below_a_mebibyte(tmp_path: Path, before: int) -> None:
    file = tmp_path / "summary"
    file.write_bytes(b"x" * before)
    write_summary({"GITHUB_STEP_SUMMARY": str(file)}, "| é | row |\n" * 200_000)
    written = file.read_bytes()
    assert len(written) <= max(before, MOST_SUMMARY - 1)
    shown = written[before:].decode()
    if before < MOST_SUMMARY - 50:
        assert len(written) > MOST_SUMMARY - 100
        assert shown.endswith(
            "| é | row |\n\nThe rest is left out: a summary holds 1 MiB. The report has it all.\n"
        )


@given(st.text(alphabet=st.characters(codec="utf-8")), st.integers(0, 300))
def test_what_is_cut_is_utf8_and_short_enough(text: str, most: int) -> None:
    shown = cut(text, most)
    assert len(shown) <= most
    assert shown.decode() == text or len(text.encode()) > most


@pytest.mark.parametrize("variable", ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"])
@pytest.mark.parametrize("place", [".", "nowhere/file", "x" * 300])
def test_a_place_that_is_no_file_is_told(tmp_path: Path, variable: str, place: str) -> None:
    environment = {variable: str(tmp_path / place)}

    def write() -> None:
        write_outputs(environment, {"status": "x"})
        write_summary(environment, "text")

    with pytest.raises(UserError, match=f"{variable}: .* cannot be written") as caught:
        write()
    assert caught.value.exit == Exit.RECIPE
