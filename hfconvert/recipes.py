"""The recipe that a command is given: a file, or what `init` would write for a folder, file or repository."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hfconvert.recipe import Recipe, load, parse
from hfconvert.recipe.positions import Mark

RECIPES = (".yaml", ".yml", ".json")
MOST = 1 << 20  # bytes of a file of another name that could be a recipe
OPTION = Mark(0, 0, "--output")
_POINTER = "version https://git-lfs"  # what lies in place of a file that Git LFS did not fetch
NAME = "hfconvert-init.yaml"  # how positions in a recipe that no file holds are shown


def recipe_of(what: str, overrides: tuple[str, ...] = (), output: Path | None = None) -> Recipe:
    """The recipe that an argument names, or the one that `init` would write for it. UserError."""
    loaded = load(Path(what), overrides) if is_recipe(what) else _proposed(what, overrides)
    if output is None:
        return loaded
    return _written_to(loaded, output)


def is_recipe(what: str) -> bool:
    """Whether a command's argument names a recipe, by its name or its text; else it is to be converted."""
    path = Path(what)
    named = path.suffix in RECIPES
    try:
        if path.is_dir():
            return False
        if named or not path.is_file():
            return named
        with path.open("rb") as file:
            text = file.read(MOST).decode()
    except (OSError, UnicodeDecodeError):  # what reads it says what is wrong
        return named
    return "\0" not in text and "version" in text and not text.startswith(_POINTER)


def _written_to(loaded: Recipe, output: Path) -> Recipe:
    """The recipe with another output folder, about which messages name the option and no line."""
    changed = loaded.output.model_copy(update={"path": output})
    moved = loaded.model_copy(update={"output": changed})
    at = ("output", "path")
    positions = loaded.document.positions.without(at)
    positions.add(at, OPTION, OPTION)
    moved.remember(replace(loaded.document, positions=positions), loaded.base)
    return moved


def _proposed(what: str, overrides: tuple[str, ...]) -> Recipe:
    from hfconvert.init import init  # noqa: PLC0415 - most recipes are files, and `inspect` is large

    return parse(init(what, Path()), NAME, overrides)
