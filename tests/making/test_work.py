from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.hashing import hash_bytes
from hfconvert.making import work
from hfconvert.making.work import (
    JOURNAL,
    RECORD,
    Finished,
    check_free,
    check_space,
    hand_over,
    read_record,
    work_folder,
    write_file,
)
from hfconvert.tensors.tally import Loss

WHERE = "recipe.yaml:9:3"


def _finish(folder: Path, journal: work.Journal, name: str, content: bytes = b"data") -> Finished:
    (folder / name).write_bytes(content)
    finished = Finished(name, len(content), hash_bytes(content), {"w": Loss(0, 1, 4)})
    journal.finish(finished)
    return finished


def _stopped(output: Path, error: type[BaseException], key: str, *names: str) -> Path:
    """A run that an error stops once those shards are complete; its work folder."""

    def run() -> None:
        with work_folder(output, key, WHERE) as (folder, journal):
            for name in names:
                _finish(folder, journal, name, name.encode())
            (folder / "sub").mkdir(exist_ok=True)
            (folder / "sub" / "half.part").write_bytes(b"ha")
            raise error

    with pytest.raises(error):
        run()
    return output.parent / f".{output.name}.hfconvert"


def _interrupted(output: Path, key: str = "plan", *names: str) -> Path:
    """A work folder as an interrupted run leaves it, with those shards complete."""
    return _stopped(output, KeyboardInterrupt, key, *names)


def _refusal(output: Path, key: str = "plan") -> str:
    with pytest.raises(UserError) as caught, work_folder(output, key, WHERE):
        pytest.fail("it was taken")
    assert caught.value.exit == Exit.RECIPE
    assert caught.value.problems[0].subject == WHERE
    return str(caught.value)


def test_work_is_done_beside_the_output_and_renamed(tmp_path: Path) -> None:
    output = tmp_path / "deep" / "out"
    with work_folder(output, "plan", WHERE) as (folder, journal):
        assert folder == tmp_path / "deep" / ".out.hfconvert"
        _finish(folder, journal, "model.safetensors")
        write_file(folder / RECORD, b"{}")
        assert not output.exists()
        hand_over(folder, output)
    assert {path.name for path in output.iterdir()} == {"model.safetensors", RECORD}
    assert not folder.exists()


def test_an_empty_output_folder_is_taken_over(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    check_free(output, WHERE)
    with work_folder(output, "plan", WHERE) as (folder, _):
        write_file(folder / "x", b"x")
        hand_over(folder, output)
    assert (output / "x").read_bytes() == b"x"


def test_a_failure_removes_the_work_and_an_interrupt_keeps_it(tmp_path: Path) -> None:
    output = tmp_path / "out"
    _stopped(output, ZeroDivisionError, "plan", "one")
    assert list(tmp_path.iterdir()) == []
    folder = _interrupted(output, "plan", "one")
    assert folder.exists()
    assert not output.exists()


def test_a_run_of_the_same_plan_goes_on(tmp_path: Path) -> None:
    output = tmp_path / "out"
    _interrupted(output, "plan", "one", "two")
    with work_folder(output, "plan", WHERE) as (folder, journal):
        assert {path.name for path in folder.iterdir()} == {JOURNAL, "one", "two"}
        assert journal.nbytes == 6
        again = journal.finished("one", 3)
        assert again == Finished("one", 3, hash_bytes(b"one"), {"w": Loss(0, 1, 4)})
        assert journal.finished("three", 5) is None


def test_a_run_of_another_plan_begins_anew(tmp_path: Path) -> None:
    output = tmp_path / "out"
    folder = _interrupted(output, "plan", "one")
    with work_folder(output, "other plan", WHERE) as (_, journal):
        assert {path.name for path in folder.iterdir()} == {JOURNAL}
        assert journal.finished("one", 3) is None


@pytest.mark.parametrize("change", ["content", "size", "gone", "folder"])
def test_a_shard_that_is_not_what_it_was_is_made_again(tmp_path: Path, change: str) -> None:
    output = tmp_path / "out"
    path = _interrupted(output, "plan", "one", "two") / "one"
    if change == "content":
        path.write_bytes(b"0ne")
    elif change == "size":
        path.write_bytes(b"one more")
    else:
        path.unlink()
        if change == "folder":
            path.mkdir()
    with work_folder(output, "plan", WHERE) as (_, journal):
        assert journal.finished("one", 3) is None
        assert journal.finished("two", 3) is not None
        assert journal.finished("two", 4) is None, "another plan of this shard"


@pytest.mark.parametrize(
    "tail",
    [
        b'{"file": "two", "size": 3, "sha2',
        b'{"file": "two"}\n',
        b'{"file": "two", "size": 3, "sha256": "x", "losses": []}\n',
        b"[1]\n",
        b"\xff\xfe\n",
        b"\0\0\0\0",
    ],
)
def test_a_torn_journal_counts_as_far_as_it_goes(tmp_path: Path, tail: bytes) -> None:
    output = tmp_path / "out"
    path = _interrupted(output, "plan", "one") / JOURNAL
    path.write_bytes(path.read_bytes() + tail)
    with work_folder(output, "plan", WHERE) as (folder, journal):
        assert journal.finished("one", 3) is not None
        assert journal.finished("two", 3) is None
        _finish(folder, journal, "two", b"two")
        lines = (folder / JOURNAL).read_text().splitlines()
    assert [json.loads(line).get("file") for line in lines] == [None, "one", "two"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"plan": "pl', b'{"plan": "plan"'])
def test_a_journal_that_was_cut_off_in_its_first_line_begins_anew(
    tmp_path: Path, content: bytes
) -> None:
    folder = _interrupted(tmp_path / "out", "plan", "one")
    (folder / JOURNAL).write_bytes(content)
    with work_folder(tmp_path / "out", "plan", WHERE) as (_, journal):
        assert journal.finished("one", 3) is None
        assert {path.name for path in folder.iterdir()} == {JOURNAL}


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / ".out.hfconvert"
    folder.mkdir()
    (folder / "thesis.tex").write_text("x")
    assert "no run of hfconvert left there" in _refusal(tmp_path / "out")
    assert (folder / "thesis.tex").read_text() == "x"


def test_what_a_kill_left_between_the_last_two_acts_is_ours(tmp_path: Path) -> None:
    folder = _interrupted(tmp_path / "out", "plan", "one")
    (folder / RECORD).write_text("{}")
    (folder / JOURNAL).unlink()
    with work_folder(tmp_path / "out", "plan", WHERE):
        assert {path.name for path in folder.iterdir()} == {JOURNAL}


def test_a_kill_while_a_work_folder_is_emptied_leaves_it_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _interrupted(tmp_path / "out", "plan", "a", "b", "z")

    def killed(path: Path) -> None:
        os.unlink(path)  # noqa: PTH108 - Path.unlink is what is replaced
        raise KeyboardInterrupt

    for _ in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", killed)
            with pytest.raises(KeyboardInterrupt), work_folder(tmp_path / "out", "other", WHERE):
                pytest.fail("it was not emptied")
        assert (folder / JOURNAL).exists()
    with work_folder(tmp_path / "out", "other", WHERE):
        assert {path.name for path in folder.iterdir()} == {JOURNAL}


def test_a_second_run_is_refused_and_does_not_touch_the_first(tmp_path: Path) -> None:
    output = tmp_path / "out"
    with work_folder(output, "plan", WHERE) as (folder, journal):
        _finish(folder, journal, "one")
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        for key in ("plan", "other"):
            assert "another run is working" in _refusal(output, key)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    with work_folder(output, "plan", WHERE):
        pass  # the lock went with the first run


def test_folders_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "cannot be made" in _refusal(tmp_path / "file" / "out")
    assert "cannot be made" in _refusal(Path("/proc/hfconvert/out"))
    assert "cannot be made" in _refusal(tmp_path / ("x" * 250))


@pytest.mark.parametrize("made", ["file", "full", "link", "dangling"])
def test_an_output_that_is_taken_is_refused(tmp_path: Path, made: str) -> None:
    output = tmp_path / "out"
    if made == "file":
        output.write_text("x")
    elif made == "full":
        output.mkdir()
        (output / "x").write_text("x")
    else:
        output.symlink_to(tmp_path if made == "link" else tmp_path / "nothing")
    with pytest.raises(UserError) as caught:
        check_free(output, WHERE)
    assert caught.value.exit == Exit.RECIPE


@pytest.mark.parametrize("name", [".", "..", "/", "/proc", "x" * 5000])
def test_outputs_that_no_folder_can_be_renamed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        check_free(Path(name), WHERE)
    assert caught.value.exit == Exit.RECIPE


def test_a_file_has_its_name_only_when_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(KeyboardInterrupt):
            write_file(tmp_path / "config.json", b"{}")
    assert [path.name for path in tmp_path.iterdir()] == ["config.json.part"]
    write_file(tmp_path / "config.json", b"{}")
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


class _Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_disk_with_too_little_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(1000, 900, 100))
    check_space(tmp_path, 100)
    with pytest.raises(UserError, match="needs 101 bytes, the disk has 100 free") as caught:
        check_space(tmp_path, 101)
    assert caught.value.exit == Exit.RESOURCES


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"1"])
def test_a_record_that_is_none(tmp_path: Path, content: bytes) -> None:
    assert read_record(tmp_path) is None
    (tmp_path / RECORD).write_bytes(content)
    assert read_record(tmp_path) is None


def test_a_record_that_is_one(tmp_path: Path) -> None:
    document: dict[str, Any] = {"digest": "x"}
    write_file(tmp_path / RECORD, json.dumps(document).encode())
    assert read_record(tmp_path) == document
