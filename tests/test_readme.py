"""What README.md shows is what the program does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from typer.main import get_command

from hfconvert.cli import app
from hfconvert.errors import Exit
from hfconvert.recipe import load
from hfconvert.recipe.not_built import not_built

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


def test_the_example_recipe_is_one(tmp_path: Path) -> None:
    example, _workflow = _blocks("yaml")
    file = tmp_path / "recipe.yaml"
    file.write_text(example)
    recipe = load(file, ())

    assert recipe.source.path == tmp_path / "checkpoint"
    assert recipe.output.path == tmp_path / "checkpoint-safetensors"
    assert len(recipe.key_map or ()) == 3
    assert not_built(recipe) == []


def test_the_two_commands_are_one_line_each_and_name_files_that_exist() -> None:
    first, second = _blocks("sh")

    assert first.count("\n") == second.count("\n") == 1
    assert {"run", "configs/quickstart.yaml"} <= set(shlex.split(first))
    assert {".ci/constraints.txt", "pytest"} <= set(shlex.split(second))
    assert (ROOT / "configs" / "quickstart.yaml").is_file()
    assert (ROOT / ".ci" / "constraints.txt").is_file()


def test_every_command_is_in_the_table_and_no_other() -> None:
    listed = re.findall(r"^\| `hfconvert (\w+)", TEXT, flags=re.MULTILINE)
    click: object = get_command(app)

    assert sorted(listed) == sorted(getattr(click, "commands", {}))


def test_exit_codes_are_those_of_the_program() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", TEXT, flags=re.MULTILINE)}

    assert listed == set(Exit) - {Exit.BULK}


def test_links_into_the_repository_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT)

    assert len(links) >= 4
    assert [link for link in links if not (ROOT / link).exists()] == []
