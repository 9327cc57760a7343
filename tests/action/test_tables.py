"""The tables of the action in `README.md` come from `action.yml`: `python tests/action/test_tables.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
BEGIN = "<!-- action: begin; written by `python tests/action/test_tables.py` -->\n"
END = "<!-- action: end -->\n"


def test_the_tables_show_the_action_as_it_is() -> None:
    assert README.read_text() == with_tables(README.read_text())


def test_the_tables_hold_every_input_and_output_once() -> None:
    action = load()
    shown = re.findall(r"^\| `([a-z-]+)` \|", "".join(tables(action)), flags=re.MULTILINE)
    assert shown == [*action["inputs"], *action["outputs"]]


def test_a_bar_in_a_description_does_not_end_a_cell() -> None:
    assert list(table(("x",), [("a | b",)])) == ["| x |\n", "|---|\n", "| a \\| b |\n", "\n"]


def load() -> dict[str, Any]:
    """`action.yml` as a document."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert isinstance(action, dict)
    return action


def with_tables(text: str) -> str:
    """The text of the README with the tables as the action is now."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + "".join(tables(load())).strip() + "\n" + END + rest.split(END)[1]


def tables(action: Mapping[str, Any]) -> Iterator[str]:
    """The two tables, a line at a time."""
    inputs = [
        (f"`{name}`", _default(one), one["description"]) for name, one in action["inputs"].items()
    ]
    yield from table(("input", "default", ""), inputs)
    outputs = [(f"`{name}`", one["description"]) for name, one in action["outputs"].items()]
    yield from table(("output", ""), outputs)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table of Markdown, and the empty line that ends it."""
    yield f"| {' | '.join(head)} |\n"
    yield f"|{'---|' * len(head)}\n"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n"
    yield "\n"


def _default(one: Mapping[str, Any]) -> str:
    return f"`{one['default']}`" if "default" in one else ""


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text()))
