"""The map in `hfconvert/README.md` is made from the modules: `python tests/test_map.py` writes it anew."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "hfconvert"
README = PACKAGE / "README.md"
BEGIN = "<!-- map: begin; written by `python tests/test_map.py` -->\n"
END = "<!-- map: end -->\n"


def test_the_map_shows_every_module_as_it_is() -> None:
    assert README.read_text() == with_map(README.read_text())


def test_the_map_holds_each_module_once() -> None:
    shown = re.findall(r"^- `(?P<path>[a-z_/]+\.py)`", "".join(lines()), flags=re.MULTILINE)
    modules = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")]
    assert sorted(shown) == sorted(str(path) for path in modules if path.name != "__init__.py")


def with_map(text: str) -> str:
    """The text of the README with the map as the modules are now."""
    before, rest = text.split(BEGIN)
    made = re.sub(r"\n{3,}", "\n\n", "".join(lines()))
    return before + BEGIN + made + END + rest.split(END)[1]


def lines() -> Iterator[str]:
    """The map, in the order of the layers, top to bottom; a room in the order of its module names."""
    for name in layers():
        room, module = PACKAGE / name, PACKAGE / f"{name}.py"
        if module.exists():
            yield f"- `{name}.py`: {first_line(module)}\n"
        elif room.exists():
            yield from room_lines(room)


def room_lines(room: Path) -> Iterator[str]:
    """A room: its heading, its modules, then the rooms within it."""
    yield f"\n**`{room.relative_to(PACKAGE)}/`** {first_line(room / '__init__.py')}\n\n"
    for path in sorted(room.glob("*.py")):
        if path.name != "__init__.py":
            yield f"- `{path.relative_to(PACKAGE)}`: {first_line(path)}\n"
    for inner in sorted(path.parent for path in room.glob("*/__init__.py")):
        yield from room_lines(inner)
    yield "\n"


def layers() -> list[str]:
    """Names of the modules and rooms of the package, from the layers that import-linter checks."""
    contract = (ROOT / "pyproject.toml").read_text().split("\nlayers = [\n")[1].split("\n]")[0]
    return re.findall(r"[a-z_]+", contract)


def first_line(path: Path) -> str:
    """The first line of a module's docstring; empty for a module that has none or is not there."""
    return (
        ""
        if not path.exists()
        else (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
    )


if __name__ == "__main__":
    README.write_text(with_map(README.read_text()))
