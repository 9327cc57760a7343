from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from hfconvert.checks import blocks, sample
from hfconvert.checks.sample import drawn, every_block, sampled_blocks
from hfconvert.checks.tensors import Compared, compare_file, tensors_check
from hfconvert.readers.load import Wanted, load


@given(st.integers(0, 400), st.sampled_from(["model.embed.weight", "norm.weight", "mlp.weight"]))
def test_first_and_last_and_at_least_one_more_are_drawn(count: int, name: str) -> None:
    numbers = drawn(name, (count, 8), count)
    assert numbers == sorted(set(numbers))
    assert set(numbers) <= set(range(count))
    assert len(numbers) >= min(count, 3)
    assert {0, count - 1} <= set(numbers) or count == 0
    if "norm" in name:
        assert len(numbers) == count


def test_the_draw_depends_on_name_and_shape_alone() -> None:
    assert drawn("a.weight", (99,), 200) == drawn("a.weight", (99,), 200)
    assert drawn("a.weight", (99,), 200) != drawn("b.weight", (99,), 200)
    assert len(drawn("a.weight", (99,), 202)) == 2 + 10


def test_a_small_tensor_is_compared_whole() -> None:
    whole = [tuple(map(len, mesh)) for mesh in every_block("x", (3, 5), 4)]
    assert [tuple(map(len, mesh)) for mesh in sampled_blocks("x", (3, 5), 4)] == whole


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "ROWS_BYTES", 64)


def compared(folder: Path, tensor: torch.Tensor, other: torch.Tensor) -> Compared:
    save_file({"w": tensor}, folder / "a.safetensors")
    save_file({"w": other}, folder / "b.safetensors")
    source = load(folder / "a.safetensors", Wanted()).checkpoint
    tensors = {name: entry.tensor for name, entry in source.items()}
    return compare_file(folder / "b.safetensors", "b.safetensors", tensors, sampled_blocks)


def test_what_was_drawn_is_compared_and_the_share_is_said(
    small_blocks: None, tmp_path: Path
) -> None:
    tensor = torch.arange(1600, dtype=torch.float32)
    check = tensors_check(compared(tmp_path, tensor, tensor), 1, sampled=True)
    assert check.status == "pass"
    assert check.measured == {"tensors": 1, "values": 112, "different": 0, "share": 0.07}
    assert check.detail == (
        "7.00% of the values were compared, the first and last blocks of every tensor among them; "
        "a wrong value elsewhere is missed, a wrong block with a chance of 93%"
    )


def test_a_wrong_value_is_found_where_it_was_drawn_and_only_there(
    small_blocks: None, tmp_path: Path
) -> None:
    tensor = torch.arange(1600, dtype=torch.float32)
    chosen = drawn("w", (1600,), 100)
    found = set()
    for number in range(100):
        other = tensor.clone()
        other[number * 16 + 3] += 1
        if compared(tmp_path, tensor, other).differences:
            found.add(number)
    assert found == set(chosen)


def test_every_kind_of_module_has_a_share() -> None:
    assert set(sample.SHARES) == {"embedding", "norm", "body"}
