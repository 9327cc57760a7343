"""The commands as a user meets them: exit codes, what is on stdout and what on stderr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from hfconvert import __version__, execute, run
from hfconvert.cli import main
from hfconvert.errors import Exit

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        parsed = json.loads(self.out)
        assert isinstance(parsed, dict)
        return parsed


Command = Callable[..., Said]


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Command]:
    """Run a command in this process, from the folder of the test."""
    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.chdir(tmp_path)

    def answer(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["hfconvert", *arguments])
        code = main()
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    yield answer
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    """A recipe for a source of three pickled tensors and a configuration, to be written to `out`."""
    source = tmp_path / "source"
    source.mkdir()
    state = {f"layer.{i}.weight": torch.arange(6.0).reshape(2, 3) + i for i in range(3)}
    torch.save(state, source / "pytorch_model.bin")
    (source / "config.json").write_text('{"torch_dtype": "float32"}')
    return _recipe(tmp_path)


def _recipe(folder: Path, **parts: Any) -> str:
    document = {"version": 1, "source": {"path": "./source"}, "output": {"path": "./out"}, **parts}
    (folder / "recipe.yaml").write_text(json.dumps(document, indent=2))
    return "recipe.yaml"


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


def test_converted_then_up_to_date(command: Command, recipe: str, tmp_path: Path) -> None:
    first = command("run", recipe)
    assert first.code == Exit.OK
    assert first.out.startswith("converted  ")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    second = command("run", recipe)
    assert second.code == Exit.OK
    assert second.out.startswith("up-to-date  ")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_plan_and_dry_run_write_nothing(command: Command, recipe: str, tmp_path: Path) -> None:
    planned = command("plan", recipe)
    assert (planned.code, planned.err) == (Exit.OK, "")
    assert "model.safetensors" in planned.out
    dry = command("run", recipe, "--dry-run", "--json")
    assert dry.code == Exit.OK
    assert dry.document["status"] == "planned"
    assert dry.document["outputs"] == []
    assert {path.name for path in tmp_path.iterdir()} == {"source", "recipe.yaml"}


def test_the_options_win_over_the_recipe(command: Command, recipe: str, tmp_path: Path) -> None:
    said = command(
        "run", recipe, "--output", "other", "--set", "output.filename=best.safetensors", "--json"
    )
    assert said.document["output"] == "other"
    assert (tmp_path / "other" / "best.safetensors").exists()
    assert not (tmp_path / "out").exists()


def test_a_report_goes_to_a_file_too(command: Command, recipe: str, tmp_path: Path) -> None:
    said = command("run", recipe, "--report", "report.json", "--json")
    assert json.loads((tmp_path / "report.json").read_bytes()) == said.document
    failed = command("run", recipe, "--set", "dtype=float17", "--report", "report.json")
    assert failed.code == Exit.RECIPE
    assert json.loads((tmp_path / "report.json").read_bytes())["status"] == "failed"


def test_a_report_that_cannot_be_written(command: Command, recipe: str, tmp_path: Path) -> None:
    said = command("run", recipe, "--report", "nowhere/report.json", "--json")
    assert said.code == Exit.RECIPE
    assert "error: --report: the report cannot be written" in said.err
    assert said.document["status"] == "converted"
    assert (tmp_path / "out" / "model.safetensors").exists()


def _broken_recipe(root: Path) -> list[str]:
    (root / "recipe.yaml").write_text("version: 1\nsource: {path: ./source}\ndtpye: keep\n")
    return ["run", "recipe.yaml"]


def _no_recipe(root: Path) -> list[str]:
    return ["run", "nothing.yaml"]


def _no_source(root: Path) -> list[str]:
    return ["run", _recipe(root, source={"path": "./nothing"})]


def _truncated_source(root: Path) -> list[str]:
    path = root / "source" / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:300])
    return ["run", "recipe.yaml"]


def _taken_output(root: Path) -> list[str]:
    (root / "out").mkdir()
    (root / "out" / "thesis.tex").write_text("x")
    return ["run", "recipe.yaml"]


def _output_below_a_file(root: Path) -> list[str]:
    return ["run", "recipe.yaml", "--output", "recipe.yaml/out"]


def _output_in_proc(root: Path) -> list[str]:
    return ["run", "recipe.yaml", "--output", "/proc/hfconvert"]


def _output_here(root: Path) -> list[str]:
    return ["run", "recipe.yaml", "--output", "."]


def _overflow(root: Path) -> list[str]:
    torch.save({"w": torch.tensor([1e6])}, root / "source" / "pytorch_model.bin")
    return ["run", _recipe(root, dtype="float16")]


def _everything_dropped(root: Path) -> list[str]:
    return ["run", _recipe(root, key_map=[{"drop": ["*"]}])]


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
    command: Command, recipe: str, tmp_path: Path, code: Exit, case: Callable[[Path], list[str]]
) -> None:
    arguments = case(tmp_path)
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


def test_an_error_has_three_beats(command: Command, tmp_path: Path, recipe: str) -> None:
    said = command("run", _recipe(tmp_path, source={"path": "./nothing"}))
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
        patch.setattr(run, "prove", interrupted)
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


def test_quiet_says_only_what_went_wrong(command: Command, recipe: str) -> None:
    good = command("run", recipe, "-q")
    assert (good.code, good.out, good.err) == (Exit.OK, "", "")
    bad = command("run", recipe, "-q", "--output", "source")
    assert bad.code == Exit.RECIPE
    assert bad.err.startswith("error: ")


def test_quiet_json_is_still_the_document(command: Command, recipe: str) -> None:
    assert command("run", recipe, "-q", "--json").document["status"] == "converted"


def test_names_that_no_encoding_holds_are_said_all_the_same(
    command: Command, recipe: str, tmp_path: Path
) -> None:
    strange = os.fsencode(tmp_path / "source") + b"/caf\xe9.txt"
    Path(os.fsdecode(strange)).write_bytes(b"x")
    said = command("run", recipe, "--json", "--report", "report.json")
    assert said.code == Exit.OK
    said.out.encode("ascii")
    (finding,) = (one for one in said.document["findings"] if "caf" in one["message"])
    assert finding["level"] == "warning"
    assert command("run", recipe).out.startswith("up-to-date")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "-h"], ["plan", "--help"], ["--version"]]
)
def test_help_and_version(command: Command, arguments: list[str]) -> None:
    said = command(*arguments)
    assert (said.code, said.err) == (Exit.OK, "")
    assert said.out


def test_only_commands_that_work_are_listed(command: Command) -> None:
    listed = command("--help").out
    for name in ("run", "plan", "inspect", "schema"):
        assert f" {name} " in listed
        assert command(name, "--help").code == Exit.OK


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


def test_safetensors_sources_convert_as_well(command: Command, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    save_file({"w": torch.ones(3)}, tmp_path / "source" / "model.safetensors")
    said = command("run", _recipe(tmp_path), "--json")
    assert said.code == Exit.OK
    checks = {check["name"]: check["status"] for check in said.document["checks"]}
    assert {name for name, status in checks.items() if status == "pass"} >= {"names", "tensors"}
    assert "fail" not in checks.values()
