"""The recipe that a command is given: a file, or what `init` would write for a folder, file or repository."""

from __future__ import annotations

from pathlib import Path

from hfconvert.recipe import Recipe, load, parse

RECIPES = (".yaml", ".yml", ".json")
MOST = 1 << 20  # bytes of a file of another name that could be a recipe
NAME = "hfconvert-init.yaml"  # how positions in a recipe that no file holds are shown


def recipe_of(what: str, overrides: tuple[str, ...] = (), output: Path | None = None) -> Recipe:
    """The recipe that an argument names, or the one that `init` would write for it. UserError."""
    loaded = load(Path(what), overrides) if is_recipe(what) else _proposed(what, overrides)
    if output is None:
        return loaded
    return loaded.model_copy(update={"output": loaded.output.model_copy(update={"path": output})})


def is_recipe(what: str) -> bool:
    """Whether a command's argument names a recipe, by its name or its text; else it is to be converted."""
    path = Path(what)
    try:
        if path.is_dir():
            return False
        if path.suffix in RECIPES or not path.is_file():
            return path.suffix in RECIPES
        with path.open("rb") as file:
            text = file.read(MOST).decode()
    except (OSError, UnicodeDecodeError):
        return False
    return "\0" not in text and "version" in text


def _proposed(what: str, overrides: tuple[str, ...]) -> Recipe:
    from hfconvert.init import init  # noqa: PLC0415 - most recipes are files, and `inspect` is large

    return parse(init(what, Path()), NAME, overrides)
