"""From a file to a recipe, with everything that is wrong said at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from hfconvert.errors import UserError, raise_any, recipe_problem
from hfconvert.recipe.document import MOST_CHARACTERS, Document, compose
from hfconvert.recipe.explain import explain
from hfconvert.recipe.faults import Fault, in_order
from hfconvert.recipe.models import Recipe, Root
from hfconvert.recipe.overrides import override
from hfconvert.recipe.placeholders import RECIPE_ROOTS, fill_in, placeholder_faults
from hfconvert.recipe.rules import rule_faults

RootT = TypeVar("RootT", bound=Root)


def load(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe file and put `key.path=value` overrides over it.

    Raises UserError (exit 2) with every problem at once, each at its `recipe.yaml:LINE:COL` or
    `--set key.path`. Relative paths in the recipe, overrides included, start from the recipe's folder.
    """
    return parse(read_text(path), str(path), overrides)


def parse(text: str, name: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe from text; as `load`. `name` is shown in positions, and is where paths start from."""
    document = override(compose(text, name), overrides)
    return recipe_from(document, Path(name).parent)


def recipe_from(document: Document, base: Path) -> Recipe:
    """The recipe that a document holds, or UserError."""
    faults = (*placeholder_faults(document, RECIPE_ROOTS), *rule_faults(document))
    return read_root(Recipe, document, base, faults)


def substitute(recipe: Recipe, values: Mapping[str, Any]) -> Recipe:
    """The recipe with `${a.b}` filled in from `values`, a mapping by root: `{"config": {...}}`.

    Roots that `values` lacks stay as they are. Raises UserError for names that a given root lacks, and for
    values that their fields refuse.
    """
    return recipe_from(fill_in(recipe.document, values), recipe.base)


def read_text(path: Path) -> str:
    """The text of a YAML file, or UserError: missing, not readable, too large, not UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(4 * MOST_CHARACTERS + 1)
        return data.decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        what, why, do = "there is no such file", "the path is misspelt", "name the recipe's file"
    except IsADirectoryError:
        what, why, do = "is a folder, not a recipe", "", "name the recipe's file"
    except UnicodeDecodeError as error:
        what = f"is not UTF-8 text (byte {error.start})"
        why, do = "it is another kind of file, or saved in another encoding", "save it as UTF-8"
    except (OSError, ValueError) as error:
        what, why, do = f"cannot be read: {error}", "", "mend the path or its permissions"
    raise UserError(recipe_problem(what, why=why, do=do, subject=str(path)))


def read_root(kind: type[RootT], document: Document, base: Path, faults: Iterable[Fault]) -> RootT:
    """The model that a document holds; UserError with all that is wrong, `faults` included."""
    wrong = [*document.faults, *faults]
    if document.value is None and not wrong:
        mark = document.positions.value(())
        wrong = [Fault(mark, "the file is empty", "", "write `version: 1` and a `source`")]
        raise_any(in_order(wrong))
    try:
        found = kind.model_validate(document.value, context={"base": base})
    except ValidationError as error:
        raise UserError(*in_order([*wrong, *explain(error, kind, document)])) from None
    raise_any(in_order(wrong))
    found.remember(document, base)
    return found
