from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hfconvert.recipe import Location, Recipe, load


def source(line: str) -> str:
    return f"version: 1\nsource: {{{line}}}\n"


def test_defaults_are_those_of_the_contract(read: Callable[..., Recipe]) -> None:
    found = read(head=source("repo: org/model")).source
    assert found.model_dump() == {
        "repo": "org/model",
        "path": None,
        "revision": "main",
        "subfolder": None,
        "files": None,
        "format": "auto",
        "weights": None,
        "checkpoint": None,
        "ranks": None,
        "assets_from": None,
        "on_duplicate": "error",
        "refuse_dangerous": True,
    }


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("repo: gpt2", "repo", "gpt2"),
        ("repo: '${source.repo}'", "repo", "${source.repo}"),
        ("repo: a/b, revision: 1234567", "revision", "1234567"),
        ("repo: a/b, revision: 0012e45", "revision", "0012e45"),
        ("repo: a/b, revision: 12e4567", "revision", "12e4567"),
        ("repo: a/b, revision: off", "revision", "off"),
        ("repo: a/b, revision: 2024-01-01", "revision", "2024-01-01"),
        ("path: x, checkpoint: 1000", "checkpoint", "1000"),
        ("path: x, checkpoint: 1_000", "checkpoint", "1_000"),
        ("path: x, weights: ~", "weights", "~"),
        ("path: x, weights: null", "weights", None),
        ("path: x, weights:", "weights", None),
        ("path: x, files: ['*.bin', a/b.pt]", "files", ("*.bin", "a/b.pt")),
        ("path: x, subfolder: unet", "subfolder", "unet"),
        ("path: x, format: megatron-dist", "format", "megatron-dist"),
        ("path: x, ranks: 'rank-{r}.pt'", "ranks", "rank-{r}.pt"),
        ("path: x, ranks: 'rank-{r}.pt', format: ranks", "format", "ranks"),
        ("path: x, assets_from: ../a", "assets_from", Location(path=Path("../a"))),
        ("path: x, assets_from: a/b@v1", "assets_from", Location(repo="a/b", revision="v1")),
        ("path: x, on_duplicate: keep-indexed", "on_duplicate", "keep-indexed"),
        ("path: x, refuse_dangerous: false", "refuse_dangerous", False),
        ("repo: null, path: x", "repo", None),
    ],
)
def test_taken(read: Callable[..., Recipe], line: str, field: str, value: Any) -> None:
    assert getattr(read(head=source(line)).source, field) == value


def test_paths_start_from_the_recipe(tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "side").mkdir()
    (folder / "r.yaml").write_text(source("path: ../model, assets_from: side"))
    recipe = load(folder / "r.yaml", ["output.path=out"])
    assert recipe.base == folder
    assert recipe.source.path == folder / "../model"
    assert recipe.source.assets_from == Location(path=folder / "side")
    assert recipe.output.path == folder / "out"


def test_an_absolute_path_stays(read: Callable[..., Recipe]) -> None:
    assert read(head=source("path: /data/model")).source.path == Path("/data/model")


@pytest.mark.parametrize(
    ("line", "column", "what"),
    [
        ("repo: a/b, path: x", 27, "both `repo` and `path` are given"),
        ("revision: main", 1, "neither `repo` nor `path` is given"),
        ("repo: null", 1, "neither `repo` nor `path` is given"),
        ("repo: true", 16, "`repo` must be text, not `true`"),
        ("repo: a/b@main", 16, "`a/b@main` holds a revision"),
        ("repo: 'https://huggingface.co/a/b'", 16, "`https://huggingface.co/a/b` is a URL"),
        ("repo: a/b/c", 16, "`a/b/c` is not the id of a repository"),
        ("path: ''", 16, "`path` must be a path, not ``"),
        ("path: [x]", 16, "`path` must be a path, not a list of 1"),
        ("path: x, revision: null", 29, "`revision` must be text, not null"),
        ("path: x, subfolder: ../y", 30, "`../y` leads out of the source"),
        ("path: x, files: '*.bin'", 26, "`files` must be a list, not `*.bin`"),
        ("path: x, files: []", 26, "`files` must have at least 1 item, not 0"),
        ("path: x, files: [/etc/*]", 27, "`/etc/*` leads out of the source"),
        ("path: x, files: [a, true]", 30, "item 2 of `files` must be text, not `true`"),
        ("path: x, format: pytorch", 27, "`format` cannot be `pytorch`"),
        ("path: x, ranks: rank.pt", 26, "`rank.pt` does not hold {r} once"),
        ("path: x, ranks: 'a-{r}', files: [a]", 35, "`files` stands beside `ranks`"),
        ("path: x, ranks: 'a-{r}', format: torch", 43, "`torch` does not go with `ranks`"),
        ("path: x, format: ranks", 27, "`format: ranks` needs `ranks`"),
        ("path: x, assets_from: nope", 32, "`nope` is neither an existing path nor org/name"),
        ("path: x, assets_from: true", 32, "`assets_from` must be a path or org/name"),
        ("path: x, on_duplicate: keep", 33, "`on_duplicate` cannot be `keep`"),
        (
            "path: x, refuse_dangerous: off",
            37,
            "`refuse_dangerous` must be true or false, not `off`",
        ),
        ("path: x, pth: y", 19, "unknown key `pth`"),
    ],
)
def test_refused(refuse: Callable[..., Any], line: str, column: int, what: str) -> None:
    (problem,) = refuse(head=source(line))
    assert problem.subject == f"recipe.yaml:2:{column}"
    assert problem.what.startswith(what)
