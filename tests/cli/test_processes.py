"""Commands as processes of their own: what they import, terminals, locales, pipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _in_a_process(
    *arguments: str, cwd: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hfconvert", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def _through_a_shell(
    arguments: str, streams: str, cwd: Path, before: str = ""
) -> subprocess.CompletedProcess[str]:
    """A command whose standard streams are redirected or closed as a shell writes it."""
    return subprocess.run(
        ["bash", "-c", f'{before} exec "$0" -m hfconvert {arguments} {streams}', sys.executable],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


WITHOUT_TORCH = """
import sys
from hfconvert.cli import main
sys.argv = ["hfconvert", *sys.argv[1:]]
code = main()
loaded = [name for name in ("torch", "transformers", "peft", "accelerate") if name in sys.modules]
assert not loaded, loaded
sys.exit(code)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["plan", "recipe.yaml"],
        ["run", "recipe.yaml"],
        ["inspect", "./source"],
        ["schema"],
    ],
)
def test_torch_is_not_imported(recipe: str, tmp_path: Path, arguments: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_json_is_alone_on_stdout_and_plain_on_stderr(recipe: str, tmp_path: Path) -> None:
    ran = _in_a_process("run", recipe, "--json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["status"] == "converted"
    assert "\x1b" not in ran.stdout + ran.stderr


def test_a_locale_without_unicode(recipe: str, tmp_path: Path) -> None:
    (tmp_path / "source" / "naïve.txt").write_text("x")
    ran = _in_a_process("run", recipe, "--json", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert ran.returncode == 0, ran.stderr
    plain = _in_a_process("inspect", "./source", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert plain.returncode == 0, plain.stderr


@pytest.mark.parametrize(
    "streams", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", "2>/dev/full"]
)
def test_streams_that_the_caller_closed(recipe: str, tmp_path: Path, streams: str) -> None:
    ran = _through_a_shell(f"run {recipe} --output out", streams, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert json.loads((tmp_path / "out" / "hfconvert.json").read_text())["digest"]
    assert _through_a_shell("run absent.yaml", streams, tmp_path).returncode == 2


@pytest.mark.parametrize("arguments", ["run {} --output out", "plan {} --json", "--help"])
def test_an_answer_that_finds_no_room(recipe: str, tmp_path: Path, arguments: str) -> None:
    ran = _through_a_shell(arguments.format(recipe), ">/dev/full", tmp_path)
    assert ran.returncode == 5
    assert "the system gives no more room on the disk" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_low_limit_of_file_sizes_is_said(recipe: str, tmp_path: Path) -> None:
    ran = _through_a_shell(f"run {recipe} --output out", "", tmp_path, "ulimit -f 0;")
    assert (ran.returncode, "Traceback" in ran.stderr) == (5, False)
    assert not (tmp_path / "out").exists()


def test_whoever_reads_stdout_may_stop(recipe: str, tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run(
        [sys.executable, "-m", "hfconvert", "plan", recipe],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("no_color", ["1", ""])
def test_a_terminal_gets_colours_only_where_they_are_wanted(
    recipe: str, tmp_path: Path, no_color: str
) -> None:
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    environment["NO_COLOR"] = no_color
    process = subprocess.run(
        [sys.executable, "-m", "hfconvert", "run", recipe],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        check=False,
    )
    os.close(theirs)
    shown = _drain(ours)
    assert process.returncode == 0, shown
    assert b"\x1b" not in process.stdout
    assert not no_color or b"\x1b[3" not in shown


def _drain(descriptor: int) -> bytes:
    shown = b""
    try:
        while part := os.read(descriptor, 65536):
            shown += part
    except OSError:  # the other side is closed
        pass
    finally:
        os.close(descriptor)
    return shown
