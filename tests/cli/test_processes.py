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
