from __future__ import annotations

from collections.abc import Callable

import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.coverage import check_coverage, coverage
from hfconvert.tensors.checkpoint import Checkpoint, Dropped

Make = Callable[..., Checkpoint]


def losing(checkpoint: Checkpoint, name: str) -> Checkpoint:
    """A step that loses a tensor."""
    return checkpoint.with_entries({key: entry for key, entry in checkpoint.items() if key != name})


def test_every_tensor_is_mapped_or_dropped(checkpoint: Make) -> None:
    before = checkpoint(["a", "b", "c"])
    after = before.with_entries({"x": before["a"], "b": before["b"]}, Dropped("c", "drop: c"))
    found = check_coverage(before, after)
    assert (found.mapped, found.dropped, found.lost) == (("a", "b"), ("c",), ())
    assert str(found) == "3 tensors: 2 mapped, 1 dropped"


def test_a_step_that_loses_tensors_is_found(checkpoint: Make) -> None:
    before = checkpoint([f"h.{i}.w" for i in range(4)])
    after = losing(losing(before, "h.1.w"), "h.2.w")
    with pytest.raises(UserError, match=r"2 tensors are neither .*: `h\.\{1\.\.2\}\.w`") as caught:
        check_coverage(before, after)
    assert caught.value.exit == Exit.RECIPE


def test_a_tensor_with_a_part_in_use_is_mapped(checkpoint: Make) -> None:
    """Half of it was dropped, half is written: it is not among those that were left out."""
    before = checkpoint(["a"])
    after = before.with_entries({"half": before["a"]}, Dropped("a", "drop: other"))
    assert coverage(before, after).dropped == ()
    assert coverage(before, after).mapped == ("a",)


def test_what_was_dropped_without_being_in_the_source_counts_for_nothing(checkpoint: Make) -> None:
    before = checkpoint(["a", "b"])
    after = losing(before, "b").with_entries({"a": before["a"]}, Dropped("z", "drop: z"))
    assert coverage(before, after).lost == ("b",)
