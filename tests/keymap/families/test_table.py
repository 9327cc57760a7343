from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.families import table
from hfconvert.keymap.families.table import (
    FOLDER,
    Group,
    all_families,
    family_names,
    read_table,
    table_from,
)
from hfconvert.keymap.patterns import Pattern
from hfconvert.recipe.document import compose

MINIMAL = """
about: one line
options: {n: {about: a number, from: [config.n]}, kind: {about: which, default: a, choices: [a, b]}}
signature: ["*.w"]
steps:
  - rename: {"{i}.w": "{i}.weight"}
  - when: {kind: [b, c]}
    steps: [{resize: {"*": "${options.n}"}}]
  - unless: {kind: a}
    steps: [{add_prefix: "x."}]
"""


def _table(text: str) -> Any:
    return table_from(compose(text, "family.yaml"))


def test_there_are_as_many_tables_as_files() -> None:
    assert len(family_names()) == len(list(FOLDER.rglob("*.yaml"))) >= 4
    assert set(family_names()) < set(all_families())


@pytest.mark.parametrize("name", family_names())
def test_every_table_is_right(name: str) -> None:
    found, _ = read_table(name, "recipe.yaml:1:1")
    assert found.about
    for pattern in (*found.signature, *(found.target or ())):
        Pattern.parse(pattern)
    for item in found.steps:
        steps = item.steps if isinstance(item, Group) else (item,)
        assert not [step for step in steps if step.name == "family"], "tables do not nest"


@pytest.mark.parametrize(("kind", "steps"), [("a", 1), ("b", 3), ("c", 3), (None, 2)])
def test_groups_are_chosen_by_options(kind: str | None, steps: int) -> None:
    assert len(list(_table(MINIMAL).steps_for({"kind": kind}))) == steps


def test_an_option_without_a_default_is_required() -> None:
    options = _table(MINIMAL).options
    assert (options["n"].required, options["kind"].required) == (True, False)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("about: one line\n", "", "`about` is missing"),
        ("rename:", "rnme:", "did you mean `rename`?"),
        ("${options.n}", "${options.m}", "`${options.m}` is no option of the table"),
        ("${options.n}", "${config.n}", "begins with an unknown name"),
        ("when:", "where:", "unknown key `where`"),
        ('steps: [{resize: {"*": "${options.n}"}}]', "steps: []", "`steps`"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_with_its_place(old: str, new: str, said: str) -> None:
    assert old in MINIMAL
    with pytest.raises(UserError) as caught:
        _table(MINIMAL.replace(old, new))
    assert said in str(caught.value)
    assert all(one.subject.startswith("family.yaml:") for one in caught.value.problems)


def test_a_family_that_is_not_there() -> None:
    with pytest.raises(UserError, match="did you mean `bert-original`") as caught:
        read_table("bert-orignal", "recipe.yaml:4:13")
    assert caught.value.exit == Exit.RECIPE
    assert caught.value.problems[0].subject == "recipe.yaml:4:13"


def test_a_name_never_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "evil.yaml").write_text(MINIMAL)
    with pytest.raises(UserError, match="there is no family"):
        read_table(f"../../../../..{tmp_path}/evil", "")


def test_tables_are_part_of_the_package() -> None:
    assert Path(table.__file__).parent == FOLDER
