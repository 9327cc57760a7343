"""The form of a family's table, and the tables that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from hfconvert.errors import UserError, recipe_problem
from hfconvert.recipe.document import Document, compose
from hfconvert.recipe.faults import Fault, name_hint
from hfconvert.recipe.loading import read_root, read_text
from hfconvert.recipe.model import Model, Text, Texts
from hfconvert.recipe.models import Root
from hfconvert.recipe.placeholders import placeholder_faults, placeholders
from hfconvert.recipe.steps import Option, Step, StepModel

FOLDER = Path(__file__).parent
ROOTS = ("options",)


class OptionModel(Model):
    """An option of a family: what it means, where its value comes from, its value where nothing gives one.

    `from` lists places such as `config.num_attention_heads` or `args.num_query_groups`; the first that has a
    value gives it, unless the recipe does. Without a default, a step that uses the option needs a value.
    """

    about: Text = Field(description="What it is.")
    from_: tuple[Text, ...] = Field((), alias="from", description="Where its value is looked for.")
    default: Option = Field(None, description="Its value where nothing gives one.")
    choices: tuple[Option, ...] | None = Field(None, description="The values that it takes.")

    @property
    def required(self) -> bool:
        """Whether something has to give a value."""
        return "default" not in self.model_fields_set


class Group(Model):
    """Steps that are taken only when options have these values, or any of a list of them."""

    when: dict[Text, Option | tuple[Option, ...]] = Field({}, description="Values that must be.")
    unless: dict[Text, Option | tuple[Option, ...]] = Field({}, description="Values that bar them.")
    steps: Annotated[tuple[Step, ...], Field(min_length=1)] = Field(description="The steps.")

    def applies(self, values: Mapping[str, Any]) -> bool:
        """Whether these values of options ask for the steps."""
        return all(_is(values.get(name), wanted) for name, wanted in self.when.items()) and not any(
            _is(values.get(name), barred) for name, barred in self.unless.items()
        )


def _item_tag(value: Any) -> str:
    group = isinstance(value, Group) or (isinstance(value, dict) and "steps" in value)
    return "is:group" if group else "is:step"


Item = Annotated[
    Annotated[Step, Tag("is:step")] | Annotated[Group, Tag("is:group")], Discriminator(_item_tag)
]


class FamilyTable(Root):
    """A table. `${options.x}` stands for an option wherever a recipe may have `${config.x}`.

    A step that matches nothing is passed over. With a `target`, every name has to match one of its patterns
    in the end: a tensor that the family does not know is an error.
    """

    about: Text = Field(description="What it translates, in one line.")
    options: dict[Text, OptionModel] = Field({}, description="What it takes beside its name.")
    signature: Texts = Field(description="Patterns that all match names of such a checkpoint.")
    certain: bool = Field(
        default=False,
        description="Whether the signature alone says that the family is meant: `init` takes it then.",
    )
    target: Texts | None = Field(None, description="Patterns of the names that it makes.")
    steps: Annotated[tuple[Item, ...], Field(min_length=1)] = Field(description="What it does.")
    config: dict[Text, Any] = Field(
        {}, description="The config.json of the result, where the source has none."
    )

    def steps_for(self, values: Mapping[str, Any]) -> Iterator[StepModel]:
        """The steps that these values of options ask for, in order."""
        for item in self.steps:
            if not isinstance(item, Group):
                yield item
            elif item.applies(values):
                yield from item.steps


def family_names() -> list[str]:
    """The names of all the tables."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def read_table(name: str, where: str) -> tuple[FamilyTable, Document]:
    """The table of a family, with the text that it was read from. UserError (exit 2) where there is none."""
    if name not in family_names():
        why, do = name_hint(name, all_families())
        raise UserError(
            recipe_problem(f"there is no family `{name}`", why=why, do=do, subject=where)
        )
    document = compose(read_text(FOLDER / f"{name}.yaml"), f"{name}.yaml")
    return table_from(document), document


def table_from(document: Document) -> FamilyTable:
    """The table that a document holds. UserError with all that is wrong with it."""
    faults = [*placeholder_faults(document, ROOTS), *_unknown_options(document)]
    return read_root(FamilyTable, document, FOLDER, faults)


def all_families() -> list[str]:
    """The names that the `family` step takes: the tables, and what is made at run time."""
    return sorted([*family_names(), *AT_RUN_TIME])


# Made from what transformers itself registers, when it is asked for.
AT_RUN_TIME = ("hf-v4-v5",)


def _unknown_options(document: Document) -> Iterator[Fault]:
    value = document.value if isinstance(document.value, dict) else {}
    options = value.get("options", {})
    known = list(options) if isinstance(options, dict) else []
    for path, text in placeholders(document):
        root, _, name = text.partition(".")
        if root == "options" and name not in known:
            why, do = name_hint(name, known)
            what = f"`${{{text}}}` is no option of the table"
            yield Fault(document.positions.value(path), what, why, do)


def _is(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, tuple) else bool(value == wanted)
