from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hfconvert.ci.annotations import MOST, Annotation, annotated, notice, shown
from hfconvert.ci.jobs import Outcome
from hfconvert.errors import Exit


def found(top: Path, *findings: dict[str, str], recipe: str = "recipes/r.yaml") -> list[Annotation]:
    empty = {"level": "error", "check": "recipe", "subject": "", "message": "m", "hint": ""}
    document: dict[str, Any] = {"findings": [{**empty, **one} for one in findings]}
    return [*annotated([Outcome(recipe, document, "", Exit.OK)], [recipe], top)]


def test_a_place_is_one_in_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    (one,) = found(tmp_path, {"subject": "recipes/r.yaml:12:7"})
    assert one.place == {"file": "sub/recipes/r.yaml", "line": "12", "col": "7"}
    assert one.message == "m"


def test_a_recipe_outside_of_the_repository_keeps_its_path(tmp_path: Path) -> None:
    recipe = str(tmp_path / "r.yaml")
    (one,) = found(tmp_path / "sub", {"subject": f"{recipe}:1:2"}, recipe=recipe)
    assert one.place["file"] == recipe


def test_only_recipes_have_lines(tmp_path: Path) -> None:
    subjects = [
        "/etc/passwd:1:1",
        "recipes/r.yaml",
        "x.yaml:1:1",
        "--set dtype",
        "a:recipes/r.yaml:1",
    ]
    for subject in subjects:
        (one,) = found(tmp_path, {"subject": subject, "hint": "do"})
        assert (one.place, one.message) == ({}, f"{subject}: m\ndo")


def test_what_becomes_an_annotation(tmp_path: Path) -> None:
    kinds = [
        (one.kind, one.title)
        for one in found(
            tmp_path,
            {"level": "warning", "check": "source"},
            {"level": "info", "check": "source"},
            {"level": "info", "check": "publish"},
            {"level": "error", "check": "tensors"},
        )
    ]
    assert kinds == [
        ("warning", "hfconvert: source"),
        ("notice", "hfconvert: publish"),
        ("error", "hfconvert: tensors"),
    ]


def test_names_in_messages_act_on_no_terminal(tmp_path: Path) -> None:
    (one,) = found(tmp_path, {"message": "\x1b[2J::error::x\r"})
    assert str(one) == "::error title=hfconvert%3A recipe::\\x1b[2J::error::x\\r"


@pytest.mark.parametrize(("number", "lines", "counted"), [(10, 10, 0), (11, 10, 2), (500, 10, 491)])
def test_ten_of_a_kind_are_shown_and_the_rest_is_counted(
    number: int, lines: int, counted: int
) -> None:
    errors = [Annotation(kind="error", title="t", message=f"m{n}", place={}) for n in range(number)]
    said = [*shown([*errors, notice("t", "n")])]
    assert len([one for one in said if one.startswith("::error")]) == lines == MOST
    assert said[0] == "::error title=t::m0"
    assert [one for one in said if one.startswith("::notice")] == ["::notice title=t::n"]
    rest = [one for one in said if f"{counted} more of this kind" in one]
    assert len(rest) == bool(counted)
