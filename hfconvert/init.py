"""`hfconvert init`: look at a folder, file or repository, and write the recipe for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hfconvert.errors import UserError, recipe_problem
from hfconvert.inspect.facts import inspect_files
from hfconvert.inspect.propose import propose
from hfconvert.inspect.recipe_text import recipe_text
from hfconvert.recipe import Location, parse_location
from hfconvert.sourcing import is_path, list_what


def init(what: str, folder: Path) -> str:
    """The text of the recipe, to be stored in `folder`. UserError where there is nothing to convert."""
    location = _location(what)
    document = inspect_files(list_what(what))
    return recipe_text(location, propose(document, location.path), folder)


def init_document(what: str, file: Path | None) -> dict[str, Any]:
    """The document of `hfconvert init --json`; the recipe is written to `file`, if any. UserError."""
    text = init(what, file.parent if file else Path())
    if file is not None:
        _store(text, file)
    return {"recipe": text, "file": str(file) if file else None}


def _store(text: str, file: Path) -> None:
    """Write the recipe to a file that is not there yet. UserError (exit 2) where it is, or cannot be."""
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except OSError as error:
        raise UserError(
            recipe_problem(
                f"the recipe cannot be written to {file}: {error.strerror}",
                why="a recipe that is there may hold somebody's work"
                if isinstance(error, FileExistsError)
                else "its folder does not exist or is read-only",
                do="choose another name with --output",
                subject="--output",
            )
        ) from error


def _location(what: str) -> Location:
    return Location(path=Path(what)) if is_path(what) else parse_location(what, subject="WHAT")
