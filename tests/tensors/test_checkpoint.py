from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hfconvert.tensors.checkpoint import Dropped, found
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf

Make = Callable[..., Any]


@pytest.fixture
def tensors(recorder: Make) -> dict[str, Leaf]:
    source = recorder(bytes(64))
    spec = TensorSpec(BY_CODE["F32"], (2,))
    return {name: Leaf.packed(spec, source, 8 * i) for i, name in enumerate(["z", "a", "m"])}


def test_what_a_reader_found_is_under_its_own_names_in_their_order(
    tensors: dict[str, Leaf],
) -> None:
    checkpoint = found(tensors)
    assert list(checkpoint) == ["z", "a", "m"]
    assert len(checkpoint) == 3
    assert checkpoint["a"].tensor is tensors["a"]
    assert checkpoint["a"].sources == ("a",)
    assert checkpoint["a"].steps == ()
    assert checkpoint.dropped == ()


def test_drops_add_up_from_step_to_step(tensors: dict[str, Leaf]) -> None:
    first = found(tensors)
    second = first.with_entries({"z": first["z"], "a": first["a"]}, Dropped("m", "drop: m"))
    third = second.with_entries({"z": second["z"]}, Dropped("a", "drop: a"))
    assert list(third) == ["z"]
    assert third.dropped == (Dropped("m", "drop: m"), Dropped("a", "drop: a"))
    assert first.dropped == (), "the checkpoint before is as it was"
    assert list(first) == ["z", "a", "m"]


def test_a_spec_knows_its_size_and_how_to_say_it() -> None:
    spec = TensorSpec(BY_CODE["BF16"], (3, 0, 2))
    assert (spec.elements, spec.nbytes, str(spec)) == (0, 0, "BF16 [3, 0, 2]")
    scalar = TensorSpec(BY_CODE["I64"], ())
    assert (scalar.elements, scalar.nbytes, str(scalar)) == (1, 8, "I64 []")
