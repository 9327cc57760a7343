from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.apply import step_function
from hfconvert.recipe import steps as forms
from hfconvert.tensors.checkpoint import Checkpoint

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse .* support is in beta"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks"),
]

Shape = tuple[int, ...]
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "coo": lambda dense: dense.to_sparse(),
    "csr": lambda dense: dense.to_sparse_csr(),
    "csc": lambda dense: dense.to_sparse_csc(),
    "bsr": lambda dense: dense.to_sparse_bsr((2, 3)),
    "bsc": lambda dense: dense.to_sparse_bsc((2, 3)),
    "batched csr": lambda dense: torch.stack([dense, dense.flip(0)]).to_sparse_csr(),
    "batched bsc": lambda dense: torch.stack([dense, -dense]).to_sparse_bsc((2, 3)),
    "hybrid csr": lambda dense: dense[..., None].expand(6, 9, 4).to_sparse_csr(dense_dim=1),
    "hybrid bsr": lambda dense: dense[..., None].expand(6, 9, 4).to_sparse_bsr((2, 3), dense_dim=1),
    "hybrid coo": lambda dense: dense.to_sparse(1),
}
DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool),
]


def densify(checkpoint: Checkpoint, *patterns: str) -> Checkpoint:
    step = forms.Densify(densify=patterns)
    return step_function(step, lambda *path: "r.yaml:3:5")(checkpoint).checkpoint


def some() -> torch.Tensor:
    """A matrix of 6 x 9 with a third of it zero."""
    generator = torch.Generator().manual_seed(3)
    dense = torch.randn(6, 9, generator=generator)
    return dense * (torch.rand(6, 9, generator=generator) > 0.33)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(kit: Any, plain: Any, layout: str) -> None:
    made = LAYOUTS[layout](some())
    result = densify(plain({"x": made}), "*")["x"].tensor
    dense = made.to_dense()
    assert result.spec.shape == tuple(dense.shape)
    for block in (4, 28, 200, 1 << 20):
        assert kit.values(result, block) == kit.raw(dense)
    assert kit.elsewhere(result) == kit.raw(dense)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_duplicates_are_summed_in_their_own_type(kit: Any, plain: Any, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    indices = torch.randint(0, 4, (2, 300), generator=generator)
    values = (torch.randn(300, generator=generator) * 50).to(dtype)
    made = torch.sparse_coo_tensor(indices, values, (4, 5))
    result = densify(plain({"x": made}), "*")["x"].tensor
    assert kit.values(result, 16) == kit.raw(made.to_dense())
    assert kit.elsewhere(result) == kit.raw(made.to_dense())


@given(st.data())
def test_any_entries_in_any_blocks(kit: Any, plain: Any, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    sparse = data.draw(st.integers(1, len(shape)))
    count = data.draw(st.integers(0, 12))
    seed = data.draw(st.integers(0, 1 << 20))
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(0, size, (count,), generator=generator) for size in shape[:sparse]]
    values = torch.randn(count, *shape[sparse:], generator=generator)
    made = torch.sparse_coo_tensor(torch.stack(rows), values, shape)
    result = densify(plain({"x": made}), "*")["x"].tensor
    block = data.draw(st.integers(4, 600))
    assert kit.values(result, block) == kit.raw(made.to_dense())
    assert kit.elsewhere(result) == kit.raw(made.to_dense())


def test_no_dimension_at_all(kit: Any, plain: Any) -> None:
    indices = torch.zeros((0, 3), dtype=torch.int64)
    made = torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.5, 3.0]), ())
    result = densify(plain({"x": made}), "*")["x"].tensor
    assert kit.values(result) == kit.raw(torch.tensor(6.5))
    assert kit.elsewhere(result) == kit.raw(torch.tensor(6.5))


def test_entries_far_apart_are_read_in_groups(kit: Any, plain: Any) -> None:
    order = torch.randperm(2000, generator=torch.Generator().manual_seed(0))
    made = torch.sparse_coo_tensor(order[None, :1500], torch.arange(1500.0), (2000,))
    result = densify(plain({"x": made}), "*")["x"].tensor
    assert kit.values(result, 400) == kit.raw(made.to_dense())


def test_indices_of_32_bits(kit: Any, plain: Any) -> None:
    crow, column = (torch.tensor(part, dtype=torch.int32) for part in ([0, 1, 2], [2, 0]))
    made = torch.sparse_csr_tensor(crow, column, torch.tensor([5.0, 7.0]), (2, 3))
    result = densify(plain({"x": made}), "*")["x"].tensor
    assert kit.values(result) == kit.raw(made.to_dense())


def test_it_reads_nothing_before_it_is_asked(kit: Any, plain: Any) -> None:
    checkpoint = plain({"x": some().to_sparse()})
    source = next(checkpoint["x"].tensor.detail.values.needs(((0, 1),))).source
    source.reads.clear()
    result = densify(checkpoint, "*")["x"].tensor
    assert source.reads == []
    assert kit.reads_what_it_needs(result, source)


def test_what_it_holds_is_said(plain: Any) -> None:
    made = torch.sparse_coo_tensor(
        torch.zeros((2, 1000), dtype=torch.int64), torch.ones(1000), (3, 3)
    )
    result = densify(plain({"x": made}), "*")["x"].tensor
    assert result.scratch >= 1000 * 8 * 4


def test_other_tensors_stay_as_they_are(plain: Any) -> None:
    before = plain({"x": some().to_sparse(), "w": torch.ones(3)})
    after = densify(before, "*")
    assert after["w"] is before["w"]
    assert after["x"].steps == ("densify",)


def test_a_pattern_that_covers_no_sparse_tensor(plain: Any) -> None:
    with pytest.raises(UserError, match=r"none of `w` is sparse") as caught:
        densify(plain({"w": torch.ones(3)}), "*")
    assert caught.value.exit is Exit.RECIPE


FALSE: dict[str, tuple[Any, str]] = {
    "outside": (lambda part: part + 6, "lead outside of the tensor"),
    "negative": (lambda part: part - 9, "lead outside of the tensor"),
}


@pytest.mark.parametrize("case", FALSE)
def test_indices_that_lie(kit: Any, plain: Any, case: str) -> None:
    change, match = FALSE[case]
    right = some().to_sparse().coalesce()
    with torch.sparse.check_sparse_tensor_invariants(False):
        made = torch.sparse_coo_tensor(right.indices(), right.values(), (6, 9))
        made._indices()[:] = change(made._indices())
        checkpoint = plain({"x": made})
    with pytest.raises(UserError, match=match) as caught:
        kit.values(densify(checkpoint, "*")["x"].tensor)
    assert caught.value.exit is Exit.SOURCE


def test_pointers_that_lie(kit: Any, plain: Any) -> None:
    made = some().to_sparse_csr()
    made.crow_indices()[2] = 40
    with pytest.raises(UserError, match="lead outside of the tensor, or are in no order"):
        kit.values(densify(plain({"x": made}), "*")["x"].tensor)


def test_indices_that_share_their_bytes(plain: Any) -> None:
    """One index of 8 bytes, expanded: it could claim any number of entries."""
    index = torch.zeros((1, 1), dtype=torch.int64).expand(1, 1 << 20)
    made = torch.sparse_coo_tensor(index, torch.ones(1 << 20), (3,), check_invariants=False)
    with pytest.raises(UserError, match="no whole numbers of their own"):
        densify(plain({"x": made}), "*")
