from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.applied import Applied
from hfconvert.keymap.apply import apply
from hfconvert.keymap.elements import Lost, lost_elements
from hfconvert.tensors.assemble import Assemble, Lift
from hfconvert.tensors.checkpoint import Checkpoint, Dropped, Entry
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.reorder import Permute, Take
from hfconvert.tensors.window import Select, Window

Any_ = Callable[..., Any]


def _after(before: Checkpoint, *tensors: LazyTensor, dropped: tuple[Dropped, ...] = ()) -> Any:
    entries = {f"out{i}": Entry(tensor, ("w",)) for i, tensor in enumerate(tensors)}
    return before.with_entries(entries, *dropped)


@pytest.fixture
def before(holding: Any_) -> Any:
    return holding({"w": np.zeros((6, 4), "<u2")})


def test_half_a_tensor_is_found(before: Any) -> None:
    half = Window(before["w"].tensor, 0, 0, 3)
    assert lost_elements(before, _after(before, half)) == {"w": Lost(12, ((3, 6), (0, 4)))}


def test_halves_are_the_whole(before: Any) -> None:
    w = before["w"].tensor
    halves = [Window(w, 1, 0, 2), Window(w, 1, 2, 4)]
    assert lost_elements(before, _after(before, *halves)) == {}


def test_a_corner_that_two_cuts_leave_is_found(before: Any) -> None:
    w = before["w"].tensor
    parts = [Window(w, 0, 0, 4), Window(w, 1, 1, 4)]
    assert lost_elements(before, _after(before, *parts)) == {"w": Lost(2, ((4, 6), (0, 1)))}


def test_what_a_rule_dropped_counts(before: Any) -> None:
    w = before["w"].tensor
    rest = Dropped("w", "drop: half", Window(w, 0, 3, 6))
    assert lost_elements(before, _after(before, Window(w, 0, 0, 3), dropped=(rest,))) == {}
    assert lost_elements(before, _after(before, dropped=(Dropped("w", "drop: w"),))) == {}


def test_every_index_of_a_stack_counts(before: Any) -> None:
    w = before["w"].tensor
    rows = [Select(w, 0, index) for index in (0, 1, 3, 5)]
    assert lost_elements(before, _after(before, *rows)) == {"w": Lost(8, ((2, 5), (0, 4)))}


def test_a_permutation_is_the_whole_and_a_choice_of_rows_is_not(before: Any) -> None:
    w = before["w"].tensor
    order = np.array([5, 3, 1, 0, 2, 4])
    assert lost_elements(before, _after(before, Take(w, 0, order))) == {}
    assert lost_elements(before, _after(before, Take(w, 0, order[:4]))) == {
        "w": Lost(8, ((2, 5), (0, 4)))
    }


def test_no_tensor_at_all_and_a_tensor_of_nothing(holding: Any_) -> None:
    arrays = {"scalar": np.zeros((), "<u2"), "empty": np.zeros((0, 3), "<u2")}
    before = holding(arrays)
    assert lost_elements(before, before.with_entries({})) == {"scalar": Lost(1, ())}


def _pieces(draw: st.DrawFn, part: LazyTensor) -> list[LazyTensor]:
    """What a random layout step makes of a tensor: all of it, in one piece or several."""
    if not part.extent:
        return [Lift(part, 0)]
    dim = draw(st.integers(0, len(part.extent) - 1))
    size = part.extent[dim]
    at = draw(st.integers(0, size))
    rows = np.array(draw(st.permutations(range(size))), dtype=np.int64)
    dims = tuple(draw(st.permutations(range(len(part.extent)))))
    kinds: dict[str, list[LazyTensor]] = {
        "split": [Window(part, dim, 0, at), Window(part, dim, at, size)],
        "unstack": [Select(part, dim, index) for index in range(size)],
        "permute": [Permute(part, dims)],
        "take": [Take(part, dim, rows)],
        "lift": [Lift(part, dim)],
        "beside": [Assemble((part, part), dim)],
    }
    return kinds[draw(st.sampled_from(sorted(kinds)))]


@st.composite
def _cut(draw: st.DrawFn, tensor: LazyTensor) -> tuple[list[LazyTensor], bool]:
    """Parts of a tensor, rearranged and mixed; whether one of them was left out."""
    parts: list[LazyTensor] = [tensor]
    for _ in range(draw(st.integers(1, 4))):
        pieces = _pieces(draw, parts.pop(draw(st.integers(0, len(parts) - 1))))
        parts += [piece for piece in pieces if 0 not in piece.extent]
    forget = draw(st.booleans()) and len(parts) > 1
    if forget:
        parts.pop(draw(st.integers(0, len(parts) - 1)))
    return parts, forget


@given(st.data())
def test_what_is_lost_is_what_no_part_holds(holding: Any_, data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    before = holding({"w": np.arange(np.prod(shape), dtype="<u4").reshape(shape)})
    parts, forgot = data.draw(_cut(before["w"].tensor))
    lost = lost_elements(before, _after(before, *parts))
    held: set[int] = set()
    for part in parts:
        out = np.zeros(part.extent, "<u4")
        part.fill(out, tuple((0, size) for size in part.extent))
        held.update(out.reshape(-1).tolist())
    missing = int(np.prod(shape)) - len(held)
    assert lost == ({} if not missing else {"w": lost["w"]})
    assert missing == (lost["w"].elements if lost else 0)
    assert forgot or not lost


def test_a_step_that_forgets_half_a_tensor_stops_the_map(
    holding: Any_, step: Any_, where: Any_, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(_: object, __: object) -> Any:
        def half(entry: Entry) -> Entry:
            return Entry(Window(entry.tensor, 0, 0, 2), entry.sources)

        return lambda before: Applied(
            before.with_entries({name: half(one) for name, one in before.items()})
        )

    monkeypatch.setattr("hfconvert.keymap.apply.STEPS", {"drop": forgetful})
    before = holding({f"h.{i}.w": np.zeros((4, 3), "<u2") for i in range(8)})
    with pytest.raises(UserError) as caught:
        apply(before, [step("drop", ("x",))], where)
    (problem,) = caught.value.problems
    assert problem.exit == Exit.RECIPE
    assert problem.what == (
        "`h.{0..7}.w`: 6 elements are neither mapped nor dropped, within [2:4, 0:3]"
    )
