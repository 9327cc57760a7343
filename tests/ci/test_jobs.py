"""What the inputs change of a recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hfconvert.ci.inputs import read_inputs
from hfconvert.ci.jobs import load
from hfconvert.errors import UserError
from hfconvert.recipe import Recipe

Load = Callable[..., Recipe]

RECIPE = """\
version: 1
source: {path: ./source, revision: v1}
publish: {repo: owner/m, private: false}
"""


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load the recipe with inputs."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "r.yaml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)

    def load_with(**inputs: str) -> Recipe:
        given = {f"HFC_{name.upper()}": value for name, value in inputs.items()}
        read = read_inputs({"HFC_RECIPE": "recipes/r.yaml", **given})
        return load(read, read.recipes[0])

    return load_with


def test_without_inputs_it_is_as_it_is_written(loaded: Load) -> None:
    recipe = loaded()
    assert recipe.source.path == Path("recipes/source")
    assert recipe.publish is not None
    assert recipe.publish.how == "pull_request"


def test_a_repository_in_place_of_a_path(loaded: Load) -> None:
    source = loaded(source="org/model@abc").source
    assert (source.repo, source.path, source.revision) == ("org/model", None, "abc")
    assert loaded(source="org/model").source.revision == "main"
    evil = 'o/m"\\n'
    with pytest.raises(UserError, match="not the id of a repository"):
        loaded(source=evil)


def test_a_path_of_the_workspace_in_place_of_the_recipes_own(loaded: Load, tmp_path: Path) -> None:
    assert loaded(source="./other").source.path == tmp_path / "other"


def test_how_it_is_published(loaded: Load) -> None:
    commit = loaded(publish="commit").publish
    assert commit is not None
    assert (commit.how, commit.repo, commit.private) == ("commit", "owner/m", False)
    assert loaded(publish="none").publish is None
    assert loaded(publish="none", set="publish.how=commit").publish is None


def test_changes_are_yaml_one_a_line(loaded: Load) -> None:
    recipe = loaded(set="dtype={default: bfloat16}\noutput.max_shard_size=1GB")
    assert recipe.dtype.default == "bfloat16"
    with pytest.raises(UserError, match="--set no_equals") as caught:
        loaded(set="no_equals\ndtype=float17")
    assert len(caught.value.problems) == 2
