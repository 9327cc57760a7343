from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.errors import UserError

Any_ = Callable[..., Any]


def _rope(step: Any_, to: str, heads: int = 1) -> Any:
    return step("permute_rope", {"names": ("*.w", "*.b"), "heads": heads, "to": to})


def test_pairs_become_halves(holding: Any_, values: Any_, step: Any_, run: Any_) -> None:
    """One head of dimension 6: x0 y0 x1 y1 x2 y2 -> x0 x1 x2 y0 y1 y2."""
    before = holding({"q.b": np.array([0, 10, 1, 11, 2, 12], "<u4")})
    half = run(_rope(step, "half"), before).checkpoint
    assert values(half)["q.b"].tolist() == [0, 1, 2, 10, 11, 12]
    assert half["q.b"].steps == ("permute_rope half",)


@given(st.tuples(*[st.integers(1, 4)] * 3), st.integers(1, 100))
def test_values_are_those_of_the_published_permutation(
    holding: Any_, values: Any_, step: Any_, run: Any_, sizes: Any, limit: int
) -> None:
    """As in the script that converted Meta's llama for transformers: view, transpose, reshape."""
    heads, pairs, width = sizes
    rows = heads * pairs * 2
    weight = np.arange(rows * width, dtype="<u2").reshape(rows, width)
    before = holding({"q.w": weight, "q.b": np.arange(rows, dtype="<u2")})
    after = run(_rope(step, "half", heads), before).checkpoint
    expected = weight.reshape(heads, pairs, 2, width).transpose(0, 2, 1, 3).reshape(rows, width)
    assert np.array_equal(values(after, limit)["q.w"], expected)
    back = values(run(_rope(step, "interleaved", heads), after).checkpoint, limit)
    assert np.array_equal(back["q.w"], weight)
    assert back["q.b"].tolist() == list(range(rows))


@pytest.mark.parametrize(("rows", "heads"), [(6, 2), (8, 3), (0, 1)])
def test_rows_that_do_not_fit_the_heads(
    holding: Any_, step: Any_, run: Any_, rows: int, heads: int
) -> None:
    with pytest.raises(UserError, match=f"an even number of rows for each of {heads} heads"):
        run(_rope(step, "half", heads), holding({"q.w": np.zeros((rows, 2), "<u2")}))
