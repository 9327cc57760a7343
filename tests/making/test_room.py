from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hfconvert.console import Console
from hfconvert.errors import Exit, UserError
from hfconvert.making import room
from hfconvert.recipe import Recipe, parse
from hfconvert.run import run


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """16 kB of weights; 8 kB as bfloat16."""
    torch.save({"w": torch.ones(64, 64)}, tmp_path / "w.pt")
    text = "version: 1\nsource: {path: w.pt}\ndtype: bfloat16\noutput: {path: new/out}\n"
    return parse(text, str(tmp_path / "recipe.yaml"))


def test_all_that_lacks_is_said_at_once_and_nothing_is_made(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "free_bytes", lambda _: 8000)
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 1000)
    with pytest.raises(UserError) as caught:
        run(recipe, Console(-1))
    assert caught.value.exit == Exit.RESOURCES
    disk, memory = map(str, caught.value.problems)
    assert disk.startswith(f"{tmp_path}: the run needs 8.30 kB")
    assert "8.00 kB are free" in disk
    assert "of memory, and 1.00 kB are free" in memory
    assert not (tmp_path / "new").exists()


def test_a_cache_that_may_not_be_looked_at_is_no_matter_to_a_local_run(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / ("x" * 300)))  # the system refuses it to root too
    assert run(recipe, Console(-1)).status == "converted"


def test_a_result_that_is_there_needs_no_room(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(recipe, Console(-1)).status == "converted"
    monkeypatch.setattr(room, "free_bytes", lambda _: 0)
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 0)
    assert run(recipe, Console(-1)).status == "up-to-date"
