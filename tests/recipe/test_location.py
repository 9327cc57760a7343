from __future__ import annotations

from pathlib import Path

import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.recipe import Location, parse_location


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("org/name", Location(repo="org/name")),
        ("org/name@main", Location(repo="org/name", revision="main")),
        ("org/name@refs/pr/3", Location(repo="org/name", revision="refs/pr/3")),
        ("org/name@1234567", Location(repo="org/name", revision="1234567")),
        ("a.b-c_d/E.1", Location(repo="a.b-c_d/E.1")),
    ],
)
def test_repositories(text: str, location: Location, tmp_path: Path) -> None:
    assert parse_location(text, base=tmp_path) == location
    assert str(location) == text


@pytest.mark.parametrize("text", ["./x", "../x", ".", "..", ".hidden/x", "/abs/x"])
def test_paths_by_their_beginning(text: str, tmp_path: Path) -> None:
    assert parse_location(text, base=tmp_path) == Location(path=tmp_path / text)


def test_a_path_because_it_exists(tmp_path: Path) -> None:
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert parse_location("org/name", base=tmp_path) == Location(path=tmp_path / "org/name")
    assert str(parse_location("org", base=tmp_path)) == str(tmp_path / "org")


def test_paths_start_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.pt").touch()
    assert parse_location("model.pt") == Location(path=Path("model.pt"))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "neither a path nor a repository is named"),
        ("name", "`name` is neither an existing path nor org/name[@revision]"),
        ("a/b/c", "`a/b/c` is neither an existing path nor org/name[@revision]"),
        ("org/name@", "`org/name@` is neither an existing path nor org/name[@revision]"),
        ("org/na me", "`org/na me` is not the id of a repository"),
        ("org/a--b", "`org/a--b` is not the id of a repository"),
        ("org/a..b", "`org/a..b` is not the id of a repository"),
        ("-org/a", "`-org/a` is not the id of a repository"),
        ("org/a.git", "`org/a.git` is not the id of a repository"),
        ("~/model", "`~/model` is not the id of a repository"),
        (f"org/{'a' * 100}", f"`org/{'a' * 56}...` is longer than 96 letters"),
        ("a\0b", "a path holds a NUL character"),
        ("x" * 5000, f"`{'x' * 60}...` is neither an existing path nor org/name[@revision]"),
    ],
)
def test_neither(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        parse_location(text, base=tmp_path, subject="WHAT")
    (problem,) = caught.value.problems
    assert (problem.exit, problem.subject, problem.what) == (Exit.RECIPE, "WHAT", what)
    assert problem.do
