"""What commands say and leave when they cannot do what they were asked."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hfconvert import __version__
from hfconvert.errors import Exit
from hfconvert.making import execute
from hfconvert.making import make as making

Command = Callable[..., Any]
Write = Callable[..., str]


LONG = "x" * 5000


@pytest.mark.parametrize(
    "arguments",
    [("run", LONG), ("plan", f"{LONG}.yaml"), ("inspect", f"{LONG}/y"), ("init", f"./{LONG}")],
    ids=lambda given: given[0],
)
def test_a_name_that_no_file_can_have_is_told(command: Command, arguments: tuple[str, ...]) -> None:
    said = command(*arguments)
    assert said.code in (2, 3)
    assert said.err.startswith("error: ")
    assert any(
        one in said.err for one in ("too long", "neither an existing path", "is longer than")
    )
    assert "bug" not in said.err


def test_an_output_of_such_a_name_is_told(command: Command, recipe: str) -> None:
    said = command("run", recipe, "--output", "x" * 300)
    assert said.code == 2
    assert "a name is too long for this system" in said.err


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that may not be searched, by nobody at all: permissions do not hold root back."""
    folder = tmp_path / "closed"
    stat = os.stat

    def refused(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if isinstance(path, str | os.PathLike) and f"{folder}{os.sep}" in os.fspath(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", refused)
    return folder


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("inspect", "closed/m"), Exit.SOURCE),
        (("init", "closed/m"), Exit.SOURCE),
        (("run", "closed/m"), Exit.SOURCE),
        (("run", "closed/r.yaml"), Exit.RECIPE),
        (("run", "recipe.yaml", "--set", "source.assets_from=closed/a"), Exit.RECIPE),
    ],
)
def test_a_folder_that_may_not_be_searched_is_no_bug(
    command: Command, recipe: str, closed: Path, arguments: tuple[str, ...], code: Exit
) -> None:
    said = command(*(one.replace("closed", str(closed)) for one in arguments))
    assert said.err.startswith("error: ")
    assert said.code == code


def test_a_source_that_is_not_there_is_looked_for_at_its_line(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "recipe.yaml").write_text("version: 1\nsource:\n  path: ./nothing\n")
    said = command("run", "recipe.yaml")
    assert (said.code, "do:  correct it: recipe.yaml:3:3" in said.err) == (Exit.SOURCE, True)
    said = command("run", "recipe.yaml", "--set", "source.path=./other")
    assert "do:  correct it: --set source.path" in said.err


def _broken_recipe(root: Path, write: Write) -> list[str]:
    (root / "recipe.yaml").write_text("version: 1\nsource: {path: ./source}\ndtpye: keep\n")
    return ["run", "recipe.yaml"]


def _no_recipe(root: Path, write: Write) -> list[str]:
    return ["run", "nothing.yaml"]


def _no_source(root: Path, write: Write) -> list[str]:
    return ["run", write(source={"path": "./nothing"})]


def _truncated_source(root: Path, write: Write) -> list[str]:
    path = root / "source" / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:300])
    return ["run", "recipe.yaml"]


def _taken_output(root: Path, write: Write) -> list[str]:
    (root / "out").mkdir()
    (root / "out" / "thesis.tex").write_text("x")
    return ["run", "recipe.yaml"]


def _output_below_a_file(root: Path, write: Write) -> list[str]:
    return ["run", "recipe.yaml", "--output", "recipe.yaml/out"]


def _output_in_proc(root: Path, write: Write) -> list[str]:
    return ["run", "recipe.yaml", "--output", "/proc/hfconvert"]


def _output_here(root: Path, write: Write) -> list[str]:
    return ["run", "recipe.yaml", "--output", "."]


def _overflow(root: Path, write: Write) -> list[str]:
    torch.save({"w": torch.tensor([1e6])}, root / "source" / "pytorch_model.bin")
    return ["run", write(dtype="float16")]


def _everything_dropped(root: Path, write: Write) -> list[str]:
    return ["run", write(key_map=[{"drop": ["*"]}])]


FAILURES = {
    Exit.VALUES: [_overflow],
    Exit.RECIPE: [
        _broken_recipe,
        _no_recipe,
        _taken_output,
        _output_below_a_file,
        _output_in_proc,
        _output_here,
        _everything_dropped,
    ],
    Exit.SOURCE: [_no_source, _truncated_source],
}
CASES = [(code, case) for code, cases in FAILURES.items() for case in cases]


@pytest.mark.parametrize(("code", "case"), CASES)
def test_every_failure_is_one_document_and_three_beats_and_leaves_nothing(
    command: Command,
    recipe: str,
    write_recipe: Write,
    tmp_path: Path,
    code: Exit,
    case: Callable[[Path, Write], list[str]],
) -> None:
    arguments = case(tmp_path, write_recipe)
    before = sorted(tmp_path.rglob("*"))
    said = command(*arguments, "--json")
    assert said.code == code
    assert said.document["status"] == "failed"
    errors = [one for one in said.document["findings"] if one["level"] == "error"]
    assert errors
    assert all(one["message"] and one["hint"] for one in errors)
    assert "Traceback" not in said.err
    assert sorted(tmp_path.rglob("*")) == before
    plain = command(*arguments)
    assert plain.code == code
    assert "Traceback" not in plain.out + plain.err
    assert sorted(tmp_path.rglob("*")) == before


def test_an_error_has_three_beats(command: Command, write_recipe: Write) -> None:
    said = command("run", write_recipe(source={"path": "./nothing"}))
    assert said.out == ""
    first, *rest = said.err.splitlines()
    assert first.startswith("error: ")
    assert "nothing" in first
    assert rest[0].startswith("  why: ")
    assert rest[1].startswith("  do:  ")


@pytest.mark.parametrize("name", ["plan", "run"])
def test_a_failed_document_has_the_fields_of_a_good_one(
    command: Command, recipe: str, tmp_path: Path, name: str
) -> None:
    good = command(name, recipe, "--json").document
    bad = command(name, recipe, "--set", "source.path=nothing", "--json").document
    assert set(good) == set(bad)


def test_a_full_disk(
    command: Command, recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    said = command("run", recipe, "--json")
    assert said.code == Exit.RESOURCES
    assert "No space left on device" in said.document["findings"][0]["message"]
    assert {path.name for path in tmp_path.iterdir()} == {"source", "recipe.yaml"}


def test_an_interrupt_keeps_the_work(
    command: Command, recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(making, "prove", interrupted)
        said = command("run", recipe)
    assert said.code == Exit.INTERRUPTED
    assert "run again to go on" in said.err
    assert not (tmp_path / "out").exists()
    assert (tmp_path / ".out.hfconvert" / "model.safetensors").exists()
    assert command("run", recipe).code == Exit.OK
    assert not (tmp_path / ".out.hfconvert").exists()


def test_a_bug_of_ours_comes_with_a_log(
    command: Command, recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "blocks", lambda *_: 1 // 0)
    said = command("run", recipe, "--json")
    assert said.code == Exit.BUG
    assert said.out == ""
    assert "this is a bug of hfconvert" in said.err
    assert "ZeroDivisionError" in said.err
    assert f"hfconvert {__version__}" in said.err
    assert "--- end ---" in said.err
    assert {path.name for path in tmp_path.iterdir()} == {"source", "recipe.yaml"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "recipe.yaml", "--nonsense"],
        ["run", "recipe.yaml", "more"],
        ["nonsense"],
        ["plan", "recipe.yaml", "--report", "x"],
        ["--nonsense"],
        ["schema", "nonsense"],
        ["run", "recipe.yaml", "--set", "output.path"],
        ["run", "recipe.yaml", "--set", "nonsense=1"],
    ],
)
def test_a_usage_error_is_exit_2_without_a_traceback(
    command: Command, recipe: str, tmp_path: Path, arguments: list[str]
) -> None:
    said = command(*arguments)
    assert said.code == Exit.RECIPE
    assert said.out == ""
    assert said.err
    assert "Traceback" not in said.err
    assert "bug" not in said.err
