from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.errors import UserError

Any_ = Callable[..., Any]
INTO = ("l.{i}.q.*", "l.{i}.k.*", "l.{i}.v.*")
GEOMETRIES = st.sampled_from([(4, 4), (4, 2), (4, 1), (1, 1), (6, 3)])  # MHA, GQA, MQA


def _split(step: Any_, *, layout: str = "interleaved", **options: Any) -> Any:
    return step("qkv", {"from": "h.{i}.qkv.*", "into": INTO, "layout": layout, **options})


def _fuse(step: Any_, *, layout: str = "interleaved", **options: Any) -> Any:
    return step("qkv", {"from": INTO, "into": "h.{i}.qkv.*", "layout": layout, **options})


def _by_group(q: Any, k: Any, v: Any, heads: int, kv_heads: int, head_dim: int) -> Any:
    """Fuse as Megatron-LM's models view it: [groups, queries of the group + key + value, head_dim]."""
    rest = q.shape[1:]
    queries = q.reshape(kv_heads, heads // kv_heads * head_dim, *rest)
    keys, values = (one.reshape(kv_heads, head_dim, *rest) for one in (k, v))
    return np.concatenate([queries, keys, values], 1).reshape(-1, *rest)


@given(GEOMETRIES, st.integers(1, 3), st.sampled_from([((), 9), ((3,), 99), ((2,), 1)]))
def test_interleaved_is_by_group_both_ways(
    holding: Any_, values: Any_, step: Any_, run: Any_, geometry: Any, head_dim: int, shape: Any
) -> None:
    (heads, kv_heads), (rest, limit) = geometry, shape
    rows = [heads * head_dim, kv_heads * head_dim, kv_heads * head_dim]
    numbers = np.arange(sum(rows) * sum(rest or (1,)), dtype="<u4").reshape(-1, *rest)
    q, k, v = np.split(numbers, np.cumsum(rows)[:-1])
    fused = _by_group(q, k, v, heads, kv_heads, head_dim)
    options: dict[str, Any] = {"heads": heads, "kv_heads": kv_heads}
    after = run(_split(step, **options), holding({"h.0.qkv.weight": fused})).checkpoint
    assert list(after) == ["l.0.q.weight", "l.0.k.weight", "l.0.v.weight"]
    got = values(after, limit)
    assert all(
        np.array_equal(got[f"l.0.{n}.weight"], one) for n, one in zip("qkv", (q, k, v), strict=True)
    )
    back = values(run(_fuse(step, **options), after).checkpoint, limit)
    assert np.array_equal(back["h.0.qkv.weight"], fused)


@given(GEOMETRIES, st.integers(1, 3))
def test_blocked_is_all_queries_all_keys_all_values(
    holding: Any_,
    values: Any_,
    step: Any_,
    run: Any_,
    geometry: Any,
    head_dim: int,
) -> None:
    heads, kv_heads = geometry
    rows = [heads * head_dim, kv_heads * head_dim, kv_heads * head_dim]
    fused = np.arange(sum(rows) * 2, dtype="<u2").reshape(-1, 2)
    options: dict[str, Any] = {"layout": "blocked", "heads": heads, "kv_heads": kv_heads}
    after = run(_split(step, **options), holding({"h.0.qkv.w": fused})).checkpoint
    got = values(after, 7)
    for name, part in zip("qkv", np.split(fused, np.cumsum(rows)[:-1]), strict=True):
        assert np.array_equal(got[f"l.0.{name}.w"], part)
    back = values(run(_fuse(step, **options), after).checkpoint)
    assert np.array_equal(back["h.0.qkv.w"], fused)


def test_three_blocks_of_one_size_need_no_heads(
    holding: Any_, values: Any_, step: Any_, run: Any_
) -> None:
    fused = np.arange(12, dtype="<u2").reshape(6, 2)
    after = run(_split(step, layout="blocked"), holding({"h.0.qkv.w": fused})).checkpoint
    assert values(after)["l.0.k.w"].tolist() == fused[2:4].tolist()


def test_a_head_has_its_gate_behind_its_query(
    holding: Any_, values: Any_, step: Any_, run: Any_
) -> None:
    """Two groups of two heads of dimension 1; fused, a group is: its queries, their gates, key, value."""
    fused = np.array([0, 1, 100, 101, 50, 60, 2, 3, 102, 103, 51, 61], "<u4")
    options: dict[str, Any] = {"heads": 4, "kv_heads": 2, "gate": True}
    after = run(_split(step, **options), holding({"h.0.qkv.w": fused})).checkpoint
    got = values(after)
    assert got["l.0.q.w"].tolist() == [0, 100, 1, 101, 2, 102, 3, 103]
    assert got["l.0.k.w"].tolist() == [50, 51]
    assert got["l.0.v.w"].tolist() == [60, 61]
    back = values(run(_fuse(step, **options), after).checkpoint)
    assert back["h.0.qkv.w"].tolist() == fused.tolist()


def test_interleaved_needs_the_heads(step: Any_, run: Any_) -> None:
    with pytest.raises(UserError, match=r"qkv: the geometry is missing: `heads`"):
        run(_split(step), None)
    with pytest.raises(UserError, match=r"qkv\.heads: the geometry is missing: \$\{args\.h\}"):
        run(_split(step, heads="${args.h}"), None)


def test_heads_that_do_not_divide(step: Any_, run: Any_) -> None:
    with pytest.raises(UserError, match="8 heads do not divide among 3 key-value heads"):
        run(_split(step, heads=8, kv_heads=3), None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"heads": 4, "kv_heads": 2}, "4 query heads and 2 key and value heads"),
        ({"heads": 4, "kv_heads": 1, "gate": True}, "4 query heads, their gates and 1 key"),
        ({"layout": "blocked"}, "three equal parts"),
    ],
)
def test_rows_that_do_not_fit_the_heads(
    holding: Any_, step: Any_, run: Any_, options: Any, said: str
) -> None:
    fused = np.zeros((7, 2), "<u2")
    with pytest.raises(UserError, match=rf"BF16 \[7, 2\] does not divide into {said}"):
        run(_split(step, **options), holding({"h.0.qkv.w": fused}))


def test_parts_in_the_wrong_order(holding: Any_, step: Any_, run: Any_) -> None:
    rows = {"q": 2, "k": 8, "v": 2}
    arrays = {f"l.0.{name}.w": np.zeros((count, 2), "<u2") for name, count in rows.items()}
    with pytest.raises(UserError, match=r"have \[2, 8, 2\] rows; .* would have \[8, 2, 2\]"):
        run(_fuse(step, heads=4, kv_heads=1), holding(arrays))


def test_a_key_that_is_missing(holding: Any_, step: Any_, run: Any_) -> None:
    arrays = {f"l.{i}.{n}.w": np.zeros((4, 2), "<u2") for i in range(3) for n in "qv"}
    with pytest.raises(UserError, match=r"`h\.\{0\.\.2\}\.qkv\.w`: missing `l\.\{i\}\.k\.\*`"):
        run(_fuse(step, heads=4, kv_heads=4), holding(arrays))
