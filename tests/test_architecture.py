"""The shape of the repository and of the package; `hfconvert/README.md` says what each rule is for."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "hfconvert"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TOP_LEVEL = {
    *("action.yml", "hfconvert", "configs", "tests", "pyproject.toml"),
    *("README.md", "LICENSE", "CHANGELOG.md"),
}
MAX_LINES = 400
HEAVY = ("torch", "transformers", "peft", "accelerate")


def tracked() -> list[Path]:
    """What git has, or would add; in an unpacked archive without git, every file."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listing.returncode:
        found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
        return [path for path in found if not path.parts[0].startswith(".")]
    return [Path(name) for name in listing.stdout.decode().split("\0") if name]


def test_the_top_level_stays_small() -> None:
    found = {path.parts[0] for path in tracked()}
    assert {name for name in found if not name.startswith(".")} <= TOP_LEVEL


def test_no_file_is_long() -> None:
    python = [path for path in tracked() if path.suffix == ".py" and (ROOT / path).exists()]
    lengths = {str(path): len((ROOT / path).read_text().splitlines()) for path in python}
    assert len(lengths) > 10
    assert {path: length for path, length in lengths.items() if length > MAX_LINES} == {}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "the module has no docstring"


def test_every_package_has_an_init() -> None:
    """A folder without one would be left out of the layers that import-linter checks."""
    folders = {path.parent for path in SOURCES}
    assert sorted(str(folder) for folder in folders if not (folder / "__init__.py").exists()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("schema", "recipe"),
        ("plan", "configs/quickstart.yaml", "--json"),
        ("inspect", "./configs/quickstart/model", "--json"),
        ("run", "configs/quickstart.yaml", "--output", "{tmp}/out"),
    ],
    ids=lambda arguments: str(arguments[0]),
)
def test_commands_import_no_torch(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """A fresh interpreter runs the whole command; none of the heavy libraries comes along."""
    argv = ["hfconvert", *(argument.format(tmp=tmp_path) for argument in arguments)]
    script = (
        f"import sys; sys.argv = {argv!r}\n"
        "from hfconvert.__main__ import main\n"
        "try: code = main()\n"
        "except SystemExit as exit: code = exit.code\n"
        f"heavy = sorted(name for name in {HEAVY!r} if name in sys.modules)\n"
        "sys.exit(f'exit {code}, imported {heavy}' if code or heavy else 0)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
