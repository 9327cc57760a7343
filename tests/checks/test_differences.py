from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from hfconvert.checks.differences import can_compare, difference, shown
from hfconvert.checks.kinship import kinship
from hfconvert.readers.load import Wanted, load
from hfconvert.tensors.dtype import BY_CODE, BY_TORCH
from hfconvert.tensors.lazy import LazyTensor

Opened = Callable[..., LazyTensor]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    def write(tensor: torch.Tensor, name: str = "x") -> LazyTensor:
        path = tmp_path / f"{name}.safetensors"
        save_file({"w": tensor.contiguous()}, path)
        return load(path, Wanted()).checkpoint["w"].tensor

    return write


def test_equal_tensors_do_not_differ(opened: Opened) -> None:
    tensor = torch.arange(400_000, dtype=torch.float32).reshape(400, 1000)
    assert difference(opened(tensor), opened(tensor, "y")) is None


def test_differences_are_counted_over_blocks_and_the_first_is_shown(opened: Opened) -> None:
    tensor = torch.zeros(400, 1000)
    other = tensor.clone()
    other[3, 7], other[250, 999], other[399, 0] = 1.5, -4.0, torch.nan
    found = difference(opened(tensor), opened(other, "y"))
    assert found is not None
    assert (found.count, found.values, found.first) == (3, 400_000, (3, 7))
    assert (found.source, found.candidate, found.largest) == ("0", "1.5", 4.0)
    assert str(found) == (
        "3 of 400,000 values differ, the first at [3, 7]: 0 in the source, 1.5 here; at most by 4"
    )


@pytest.mark.parametrize("target", [torch.bfloat16, torch.float16, torch.float64])
def test_a_cast_is_no_difference_and_one_unit_beside_it_is(
    opened: Opened, target: torch.dtype
) -> None:
    tensor = torch.randn(64, generator=torch.Generator().manual_seed(1))
    cast = tensor.to(target)
    assert difference(opened(tensor), opened(cast, "y")) is None
    beside = cast.clone()
    beside.view({2: torch.int16, 8: torch.int64}[cast.element_size()])[5] ^= 1
    found = difference(opened(tensor), opened(beside, "z"))
    assert found is not None
    assert (found.count, found.first) == (1, (5,))


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (torch.tensor(0.1), "0.100000001"),
        (torch.tensor(float("nan"), dtype=torch.bfloat16), "nan"),
        (torch.tensor(-torch.inf, dtype=torch.float16), "-inf"),
        (torch.tensor(-5, dtype=torch.int64), "-5"),
        (torch.tensor(200, dtype=torch.uint8), "200"),
        (torch.tensor(True), "true"),
        (torch.tensor(448.0).to(torch.float8_e4m3fn), "448"),
    ],
)
def test_values_are_shown_as_numbers(opened: Opened, tensor: torch.Tensor, text: str) -> None:
    one = opened(tensor)
    raw = np.empty((), one.spec.dtype.raw)
    one.fill(raw, ())
    assert shown(raw, BY_TORCH[str(tensor.dtype).removeprefix("torch.")]) == text


def test_which_types_can_be_compared() -> None:
    assert can_compare(BY_CODE["F32"], BY_CODE["BF16"])
    assert can_compare(BY_CODE["I64"], BY_CODE["I64"])
    assert not can_compare(BY_CODE["I64"], BY_CODE["I32"])
    assert not can_compare(BY_CODE["F32"], BY_CODE["F8_E8M0"])


def test_kinship_finds_other_tensors_transposes_and_rows(opened: Opened) -> None:
    generator = torch.Generator().manual_seed(2)
    a, b, c = (torch.randn(32, 32, generator=generator) for _ in range(3))
    source = {name: opened(one, f"s{name}") for name, one in {"a": a, "b": b, "c": c}.items()}
    made = {"a": b, "b": b.T, "c": c[torch.randperm(32, generator=generator)].bfloat16()}
    candidate = {name: opened(one, f"c{name}") for name, one in made.items()}
    pairs = [(name, name) for name in made]
    assert dict(kinship(pairs, source, candidate)) == {
        "a": "these are the values of b",
        "b": "these are the source's values transposed",
        "c": "these are the source's rows in another order",
    }


def test_kinship_says_nothing_of_other_values(opened: Opened) -> None:
    one, other = opened(torch.ones(4, 4)), opened(torch.zeros(4, 4), "y")
    assert list(kinship([("x", "x")], {"x": one}, {"x": other})) == []


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_the_count_is_that_of_numpy(changes: list[int]) -> None:
    import tempfile

    before = np.zeros(len(changes), np.int32)
    with tempfile.TemporaryDirectory() as folder:
        tensors = []
        for name, values in (("a", before), ("b", np.array(changes, np.int32))):
            path = Path(folder) / f"{name}.safetensors"
            save_file({"w": torch.from_numpy(values)}, path)
            tensors.append(load(path, Wanted()).checkpoint["w"].tensor)
        found = difference(tensors[0], tensors[1])
    count = int(np.count_nonzero(changes))
    assert (found.count if found else 0) == count
