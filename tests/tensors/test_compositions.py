"""Nodes over nodes, at random: what they fill, need, take in and say of where equals what numpy makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.tensors.assemble import Assemble, Lift, Same, stack
from hfconvert.tensors.box import Box, blocks, full, shape_of
from hfconvert.tensors.dtype import BY_CODE, DType
from hfconvert.tensors.lazy import LazyTensor, RawArray, TensorSpec
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.reorder import Permute, Take
from hfconvert.tensors.simplify import select, side_by_side, stacked, window
from hfconvert.tensors.window import Select, Window

Make = Callable[..., Any]
DTYPES = st.sampled_from([BY_CODE[code] for code in ("U8", "BF16", "F32", "I64", "complex128")])


@dataclass
class Pair:
    """A tensor made of nodes, what numpy says that it holds, and its recording sources."""

    tensor: LazyTensor
    array: RawArray
    sources: list[Any] = field(default_factory=list)

    def then(self, tensor: LazyTensor, array: RawArray, *more: Any) -> Pair:
        return Pair(tensor, array, [*self.sources, *more])

    def reads(self) -> set[tuple[int, int]]:
        """Every byte that was read, as (number of the source, position)."""
        return {
            (number, at)
            for number, source in enumerate(self.sources)
            for start, stop in source.reads
            for at in range(start, stop)
        }

    def needed(self, box: Box) -> set[tuple[int, int]]:
        numbers = {id(source): number for number, source in enumerate(self.sources)}
        return {
            (numbers[id(part.source)], at)
            for part in self.tensor.needs(box)
            for at in range(part.start, part.stop)
        }


def _leaf(draw: st.DrawFn, recorder: Make, dtype: DType, shape: tuple[int, ...]) -> Pair:
    start = draw(st.integers(0, 3))
    count = prod(shape) * dtype.itemsize
    seed = draw(st.integers(0, 255))
    numbers = np.arange(start + count, dtype=np.uint32) + np.uint32(seed * 977)
    content = bytes((numbers * np.uint32(2654435761) >> np.uint32(13)).astype(np.uint8))
    source = recorder(content)
    array = np.frombuffer(content[start:], dtype.raw).reshape(shape)
    return Pair(Leaf.packed(TensorSpec(dtype, shape), source, start), array, [source])


def _window(draw: st.DrawFn, pair: Pair, recorder: Make) -> Pair:
    if not pair.array.ndim:
        return pair
    dim = draw(st.integers(0, pair.array.ndim - 1))
    lo = draw(st.integers(0, pair.array.shape[dim]))
    hi = draw(st.integers(lo, pair.array.shape[dim]))
    array = np.take(pair.array, range(lo, hi), dim)
    cut = draw(st.sampled_from([Window, window]))
    return pair.then(cut(pair.tensor, dim, lo, hi), array)


def _select(draw: st.DrawFn, pair: Pair, recorder: Make) -> Pair:
    if not pair.array.size or not pair.array.ndim:
        return pair
    dim = draw(st.integers(0, pair.array.ndim - 1))
    index = draw(st.integers(0, pair.array.shape[dim] - 1))
    pick = draw(st.sampled_from([Select, select]))
    return pair.then(pick(pair.tensor, dim, index), np.take(pair.array, index, dim))


def _lift(draw: st.DrawFn, pair: Pair, recorder: Make) -> Pair:
    dim = draw(st.integers(0, pair.array.ndim))
    return pair.then(Lift(pair.tensor, dim), np.expand_dims(pair.array, dim))


def _permute(draw: st.DrawFn, pair: Pair, recorder: Make) -> Pair:
    dims = tuple(draw(st.permutations(range(pair.array.ndim))))
    return pair.then(Permute(pair.tensor, dims), pair.array.transpose(dims))


def _take(draw: st.DrawFn, pair: Pair, recorder: Make) -> Pair:
    if not pair.array.size or not pair.array.ndim:
        return pair
    dim = draw(st.integers(0, pair.array.ndim - 1))
    rows = draw(st.lists(st.integers(0, pair.array.shape[dim] - 1), max_size=7))
    index = np.array(rows, dtype=np.int64)
    return pair.then(Take(pair.tensor, dim, index), np.take(pair.array, index, dim))


def _beside(draw: st.DrawFn, pair: Pair, recorder: Make) -> Pair:
    """Another leaf beside it, before or behind."""
    if not pair.array.ndim:
        return pair
    dim = draw(st.integers(0, pair.array.ndim - 1))
    size = draw(st.integers(0, 3))
    shape = (*pair.array.shape[:dim], size, *pair.array.shape[dim + 1 :])
    other = _leaf(draw, recorder, pair.tensor.spec.dtype, shape)
    both = [pair, other] if draw(st.booleans()) else [other, pair]
    put = draw(st.sampled_from([Assemble, side_by_side]))
    tensor = put(tuple(one.tensor for one in both), dim)
    return pair.then(tensor, np.concatenate([one.array for one in both], dim), *other.sources)


def _stacked(draw: st.DrawFn, pair: Pair, recorder: Make) -> Pair:
    other = _leaf(draw, recorder, pair.tensor.spec.dtype, pair.array.shape)
    dim = draw(st.integers(0, pair.array.ndim))
    tensor = draw(st.sampled_from([stack, stacked]))((pair.tensor, other.tensor), dim)
    return pair.then(tensor, np.stack([pair.array, other.array], dim), *other.sources)


def _apart_and_together(draw: st.DrawFn, pair: Pair, recorder: Make) -> Pair:
    """Cut in two, or index by index, and put together again in any order."""
    if not pair.array.size or not pair.array.ndim:
        return pair
    dim = draw(st.integers(0, pair.array.ndim - 1))
    size = pair.array.shape[dim]
    if draw(st.booleans()):
        order = draw(st.permutations(range(size)))
        tensor = stacked([select(pair.tensor, dim, index) for index in order], dim)
        return pair.then(tensor, np.take(pair.array, order, dim))
    at = draw(st.integers(0, size))
    halves = [window(pair.tensor, dim, 0, at), window(pair.tensor, dim, at, size)]
    arrays = [np.take(pair.array, range(at), dim), np.take(pair.array, range(at, size), dim)]
    order = draw(st.permutations(range(2)))
    tensor = side_by_side([halves[number] for number in order], dim)
    return pair.then(tensor, np.concatenate([arrays[number] for number in order], dim))


def _same(draw: st.DrawFn, pair: Pair, recorder: Make) -> Pair:
    """A replica of the same bytes in another source."""
    source = recorder(pair.array.tobytes())
    replica = Leaf.packed(TensorSpec(pair.tensor.spec.dtype, pair.array.shape), source, 0)
    return pair.then(Same((pair.tensor, replica), "replica"), pair.array, source)


_OPERATIONS = (
    _window,
    _select,
    _lift,
    _permute,
    _take,
    _beside,
    _stacked,
    _apart_and_together,
    _same,
)


def _composition(draw: st.DrawFn, recorder: Make) -> Pair:
    shape = draw(st.lists(st.integers(1, 4), max_size=3).map(tuple))
    pair = _leaf(draw, recorder, draw(DTYPES), shape)
    for operation in draw(st.lists(st.sampled_from(_OPERATIONS), max_size=6)):
        if pair.array.ndim < 5 and pair.array.size < 500:
            pair = operation(draw, pair, recorder)
    return pair


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(lo, hi) for lo, hi in box)


def _any_box(draw: st.DrawFn, extent: tuple[int, ...]) -> Box:
    corners = [sorted((draw(st.integers(0, n)), draw(st.integers(0, n)))) for n in extent]
    return tuple((lo, hi) for lo, hi in corners)


@given(st.data(), st.integers(1, 300))
def test_blocks_put_together_are_what_numpy_makes(
    recorder: Make, data: st.DataObject, limit: int
) -> None:
    pair = data.draw(st.composite(_composition)(recorder))
    tensor = pair.tensor
    assert tensor.extent == tensor.spec.shape == pair.array.shape
    whole = np.zeros(tensor.extent, tensor.spec.dtype.raw)
    for box in blocks(tensor.extent, tensor.spec.dtype.itemsize, limit, tensor.grain):
        block = np.zeros(shape_of(box), tensor.spec.dtype.raw)
        tensor.fill(block, box)
        whole[_slices(box)] = block
    assert whole.tobytes() == pair.array.tobytes()


@given(st.data())
def test_any_box_is_filled_from_what_it_needs(recorder: Make, data: st.DataObject) -> None:
    pair = data.draw(st.composite(_composition)(recorder))
    tensor, raw = pair.tensor, pair.tensor.spec.dtype.raw
    box = data.draw(st.composite(_any_box)(tensor.extent))
    needed = pair.needed(box)
    assert pair.reads() == set(), "to say what is needed reads nothing"
    apart = np.zeros((*(2 * size for size in shape_of(box)), 1), raw)  # a strided place to fill
    every_second: tuple[Any, ...] = tuple(slice(None, None, 2) for _ in box)
    out = apart[(*every_second, 0, ...)]
    tensor.fill(out, box)
    assert out.tobytes() == pair.array[_slices(box)].tobytes()
    assert pair.reads() <= needed


@given(st.data())
def test_where_names_the_element_of_every_coordinate(recorder: Make, data: st.DataObject) -> None:
    pair = data.draw(st.composite(_composition)(recorder))
    tensor, raw = pair.tensor, pair.tensor.spec.dtype.raw
    axes = [
        data.draw(st.lists(st.integers(0, size - 1), max_size=4)) if size else []
        for size in tensor.extent
    ]
    mesh = tuple(np.array(axis, dtype=np.int64) for axis in axes)
    found = np.zeros([len(axis) for axis in axes], raw)
    times = np.zeros(found.shape, int)
    for place in tensor.where(mesh):
        numbers = np.zeros([len(step) for step in place.steps], np.int64)
        for axis, step in enumerate(place.steps):
            numbers += step.reshape([-1 if at == axis else 1 for at in range(numbers.ndim)])
        behind = np.frombuffer(place.source.data[place.start :], np.uint8)  # type: ignore[attr-defined]  # ours
        elements = behind[: len(behind) // raw.itemsize * raw.itemsize].view(raw)
        target = np.ix_(*place.select) if place.select else ...
        found[target] = elements[numbers]
        times[target] += 1
    assert (times == 1).all()
    assert found.tobytes() == pair.array[np.ix_(*mesh) if mesh else ...].tobytes()
    assert pair.reads() == set(), "to say where values are reads nothing"


@given(st.data())
def test_inputs_hold_all_that_the_box_is_made_of(recorder: Make, data: st.DataObject) -> None:
    """Leaf elements, followed down the inputs, are the very elements that `where` names."""
    pair = data.draw(st.composite(_composition)(recorder))
    box = data.draw(st.composite(_any_box)(pair.tensor.extent))
    mesh = tuple(np.arange(lo, hi) for lo, hi in box)
    first_replicas = {
        (id(place.source), place.start + int(number) * place.itemsize)
        for place in pair.tensor.where(mesh)
        for number in _sums(place.steps)
    }
    assert first_replicas <= set(_elements(pair.tensor, box))
    if not _holds(pair.tensor, Same):
        assert first_replicas == set(_elements(pair.tensor, box))


def _sums(steps: tuple[Any, ...]) -> Any:
    numbers = np.zeros(1, np.int64)
    for step in steps:
        numbers = np.add.outer(numbers, step).reshape(-1)
    return numbers


def _elements(tensor: LazyTensor, box: Box) -> list[tuple[int, int]]:
    if isinstance(tensor, Leaf):
        mesh = tuple(np.arange(lo, hi) for lo, hi in box)
        return [
            (id(place.source), place.start + int(number) * place.itemsize)
            for place in tensor.where(mesh)
            for number in _sums(place.steps)
        ]
    inputs = list(tensor.inputs(box))
    return [element for inner, part in inputs for element in _elements(inner, part)]


def _holds(tensor: LazyTensor, kind: type) -> bool:
    if isinstance(tensor, kind):
        return True
    inner = tensor.inputs(full(tensor.extent))
    return any(_holds(one, kind) for one, _ in inner)


@given(st.data(), st.integers(1, 300))
def test_blocks_begin_where_the_inner_blocks_do(
    recorder: Make, data: st.DataObject, limit: int
) -> None:
    """A node whose grain is that of an inner one asks it for blocks at multiples of that grain."""
    pair = data.draw(st.composite(_composition)(recorder))
    tensor = pair.tensor
    for box in blocks(tensor.extent, tensor.spec.dtype.itemsize, limit, tensor.grain):
        assert not box or box[0][0] % tensor.grain == 0
