from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hfconvert.errors import UserError

Any_ = Callable[..., Any]
ROWS = np.arange(24, dtype="<u4").reshape(8, 3)


def test_rows_are_cut_off_and_recorded(holding: Any_, values: Any_, step: Any_, run: Any_) -> None:
    model = step("resize", {"*embed.weight": 6, "bias": 6})
    arrays = {"embed.weight": ROWS, "bias": np.arange(8, dtype="<u4"), "x": ROWS}
    result = run(model, holding(arrays))
    found = values(result.checkpoint, 16)
    assert np.array_equal(found["embed.weight"], ROWS[:6])
    assert np.array_equal(found["bias"], np.arange(6))
    assert np.array_equal(found["x"], ROWS)
    assert [(one.name, one.rule) for one in result.checkpoint.dropped] == [
        ("embed.weight", "resize: 6 of 8 rows"),
        ("bias", "resize: 6 of 8 rows"),
    ]
    assert result.checkpoint.dropped[0].tensor.extent == (2, 3)
    assert [one.message for one in result.findings] == [
        "`embed.weight`, `bias`: rows 6 to 8 are cut off"
    ]


def test_rows_that_are_added_are_zero_and_a_warning(
    holding: Any_, values: Any_, step: Any_, run: Any_
) -> None:
    result = run(step("resize", {"w": 10}), holding({"w": ROWS}))
    expected = np.concatenate([ROWS, np.zeros((2, 3), "<u4")])
    assert np.array_equal(values(result.checkpoint, 20)["w"], expected)
    assert [(one.level, one.message) for one in result.findings] == [
        ("warning", "`w`: rows 8 to 10 are new and zero")
    ]
    assert result.checkpoint.dropped == ()


def test_the_size_that_it_has_changes_nothing(holding: Any_, step: Any_, run: Any_) -> None:
    before = holding({"w": ROWS})
    result = run(step("resize", {"w": 8}), before)
    assert result.checkpoint["w"].tensor is before["w"].tensor
    assert result.findings == ()


def test_a_scalar_has_no_rows(holding: Any_, step: Any_, run: Any_) -> None:
    with pytest.raises(UserError, match=r"F32 \[\] has no dimension 0"):
        run(step("resize", {"w": 8}), holding({"w": np.zeros((), "<u4")}))


def test_a_size_that_has_no_value_yet(step: Any_, run: Any_) -> None:
    with pytest.raises(UserError, match=r"resize\.w: the geometry is missing: \$\{args\.v\}"):
        run(step("resize", {"w": "${args.v}"}), None)
