from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hfconvert.errors import Exit, UserError
from hfconvert.readers.load import Wanted, load


def _save(root: Path, name: str, value: int) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    torch.save({"w": torch.full((2, 3), value), "norm": torch.ones(3)}, root / name)


def _wanted(pattern: str) -> Wanted:
    return Wanted(ranks=pattern, format="ranks", where_ranks="recipe.yaml:3:10")


def test_names_carry_the_rank_of_their_file(tmp_path: Path) -> None:
    for rank in range(11):
        _save(tmp_path, f"rank-{rank}.pt", rank)
    _save(tmp_path, "rank-x.pt", 99)
    (tmp_path / "rank-3.pt.bak").write_bytes(b"")
    found = load(tmp_path, _wanted("rank-{r}.pt"))
    assert found.format == "ranks"
    assert [file.source.name for file in found.files] == [f"rank-{r}.pt" for r in range(11)]
    assert set(found.checkpoint) == {f"{name}@{r}" for r in range(11) for name in ("w", "norm")}
    assert found.file_of["w@10"] == "rank-10.pt"
    entry = found.checkpoint["w@10"]
    assert entry.sources == ("w@10",)


def test_padded_numbers_and_folders(tmp_path: Path) -> None:
    for rank in range(2):
        _save(tmp_path, f"mp_{rank:02}/model[1].pt", rank)
    found = load(tmp_path, _wanted("mp_{r}/model[1].pt"))
    assert [file.source.name for file in found.files] == ["mp_00/model[1].pt", "mp_01/model[1].pt"]


def test_safetensors_are_read_as_what_they_are(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    for rank in range(2):
        save_file({"w": torch.full((2,), rank)}, tmp_path / f"r{rank}.safetensors")
    assert set(load(tmp_path, _wanted("r{r}.safetensors")).checkpoint) == {"w@0", "w@1"}


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'rank-\{r\}\.pt' matches no file") as caught:
        load(tmp_path, _wanted("rank-{r}.pt"))
    assert caught.value.exit == Exit.RECIPE
    assert caught.value.problems[0].subject == "recipe.yaml:3:10"


def test_a_missing_rank_is_no_smaller_world(tmp_path: Path) -> None:
    for rank in (0, 3):
        _save(tmp_path, f"rank-{rank}.pt", rank)
    with pytest.raises(UserError, match="no file of rank 1, 2, of 4 ranks") as caught:
        load(tmp_path, _wanted("rank-{r}.pt"))
    assert caught.value.exit == Exit.SOURCE


def test_two_files_of_one_rank(tmp_path: Path) -> None:
    _save(tmp_path, "rank-0.pt", 0)
    _save(tmp_path, "rank-00.pt", 0)
    with pytest.raises(UserError, match=r"rank-0\.pt and rank-00\.pt are of one rank"):
        load(tmp_path, _wanted("rank-{r}.pt"))


def test_a_number_that_is_no_rank(tmp_path: Path) -> None:
    _save(tmp_path, "step-100000.pt", 0)
    with pytest.raises(UserError, match="rank 100000 is named"):
        load(tmp_path, _wanted("step-{r}.pt"))
