"""The operations by which transformers rearranges tensors, followed on shapes alone.

Each has a counterpart here; what comes out of it is how every tensor is made of others. Never imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Made(NamedTuple):
    """A tensor to be: its shape, and how it is made: `["source", name]`, `["stack", dim, [...]]`, ..."""

    shape: tuple[int, ...]
    recipe: list[Any]


Collected = dict[str, list[Made]]


class UnsupportedError(Exception):
    """An operation that has no counterpart here."""


class Call(NamedTuple):
    """An operation, the converter that it belongs to, the first name that it makes, the model."""

    operation: Any
    converter: Any
    target: str
    model: Any


def only(parts: Sequence[Made]) -> Made:
    """The tensor, where there is one. UnsupportedError where there are several."""
    if len(parts) != 1:
        message = f"{len(parts)} tensors where one is expected"
        raise UnsupportedError(message)
    return parts[0]


def _single(collected: Collected) -> Made:
    return only([part for parts in collected.values() for part in parts])


def _one_target(call: Call) -> str:
    if len(call.converter.target_patterns) != 1:
        message = f"several targets of {type(call.operation).__name__}"
        raise UnsupportedError(message)
    return str(call.converter.target_patterns[0])


def _merge_modules(call: Call, collected: Collected) -> Collected:
    alone = _one_target(call) if len(collected) == 1 else None
    return {
        alone or pattern: [_stacked(parts, call.operation.dim)]
        for pattern, parts in collected.items()
    }


def _stacked(parts: Sequence[Made], dim: int) -> Made:
    shape = parts[0].shape
    recipe = ["stack", dim, [part.recipe for part in parts]]
    return Made((*shape[:dim], len(parts), *shape[dim:]), recipe)


def _split_modules(call: Call, collected: Collected) -> Collected:
    alone = _one_target(call) if len(collected) == 1 else None
    dim, found = call.operation.dim, {}
    for pattern, parts in collected.items():
        whole = only(parts)
        shape = (*whole.shape[:dim], *whole.shape[dim + 1 :])
        for index in range(whole.shape[dim]):
            name = (alone or pattern).replace("*", str(index))
            found[name] = [Made(shape, ["select", dim, index, whole.recipe])]
    return found


def _concatenate(call: Call, collected: Collected) -> Collected:
    dim = call.operation.dim
    ordered = [
        part for pattern in call.converter.source_patterns for part in collected.get(pattern, ())
    ]
    shape = ordered[0].shape
    size = sum(part.shape[dim] for part in ordered)
    recipe = ["concat", dim, [part.recipe for part in ordered]]
    return {_one_target(call): [Made((*shape[:dim], size, *shape[dim + 1 :]), recipe)]}


def _chunk(call: Call, collected: Collected) -> Collected:
    targets = list(call.converter.target_patterns)
    counted = call.operation.num_shards_attribute
    if counted is not None:
        count = getattr(call.model.config.get_text_config(), counted)
        targets = [_one_target(call).replace("*", str(index)) for index in range(count)]
    whole = _single(collected)
    size, rest = divmod(whole.shape[call.operation.dim], len(targets))
    if rest:
        message = f"{list(whole.shape)} does not divide into {len(targets)} parts"
        raise UnsupportedError(message)
    return _cut(whole, call.operation.dim, dict.fromkeys(targets, size))


def _split(call: Call, collected: Collected) -> Collected:
    dim, first = call.operation.dim, call.converter.target_patterns[0]
    sizes = {
        target: call.model.get_parameter(call.target.replace(first, target)).shape[dim]
        for target in call.converter.target_patterns
    }
    return _cut(_single(collected), dim, sizes)


def _cut(whole: Made, dim: int, sizes: Mapping[str, int]) -> Collected:
    found, lo = {}, 0
    for target, size in sizes.items():
        shape = (*whole.shape[:dim], size, *whole.shape[dim + 1 :])
        found[target] = [Made(shape, ["window", dim, lo, lo + size, whole.recipe])]
        lo += size
    return found


def _transpose(call: Call, collected: Collected) -> Collected:
    whole, operation = _single(collected), call.operation
    sources, targets = call.converter.source_patterns, call.converter.target_patterns
    target = sources[0] if len(targets) > 1 and len(sources) == 1 else _one_target(call)
    if operation.check_dims:
        wanted = tuple(call.model.get_parameter(call.target).shape)
        if whole.shape == wanted:
            return {target: [whole]}
    dims = list(range(len(whole.shape)))
    one, other = operation.dim0, operation.dim1
    dims[one], dims[other] = dims[other], dims[one]
    shape = tuple(whole.shape[dim] for dim in dims)
    return {target: [Made(shape, ["permute", dims, whole.recipe])]}


def _interleave(call: Call, collected: Collected) -> Collected:
    """Every second index first, or back: `rows[i]` is where index `i` of the result comes from."""
    whole, dim = _single(collected), call.operation.dim
    half = whole.shape[dim] // 2
    if call.operation.inverse:
        rows = [
            index for pair in zip(range(half), range(half, 2 * half), strict=True) for index in pair
        ]
    else:
        rows = [*range(0, 2 * half, 2), *range(1, 2 * half, 2)]
    target = str(call.converter.target_patterns[0])
    return {target: [Made(whole.shape, ["take", dim, rows, whole.recipe])]}


def _permute_for_rope(call: Call, collected: Collected) -> Collected:
    """Rows of rotary projections from pairs side by side to halves, or back; other layers stay so."""
    operation = call.operation
    config = getattr(call.model.config, operation.subconfig_key or "", call.model.config)
    heads = getattr(config, "num_attention_heads", 1)
    names = operation.permute_layer_names
    found: Collected = {}
    for pattern, parts in collected.items():
        whole = only(parts)
        if names is None or any(name in pattern for name in names):
            rows = _halves(whole.shape[0], heads, inverse=operation.inverse)
            whole = Made(whole.shape, ["take", 0, rows, whole.recipe])
        alone = len(call.converter.source_patterns) == len(call.converter.target_patterns) == 1
        found[_one_target(call) if alone else pattern] = [whole]
    return found


def _halves(size: int, heads: int, *, inverse: bool) -> list[int]:
    """Where every row comes from: in a head, first those of all pairs, then their others; or back."""
    half = size // heads // 2
    pairs = [(index, side) for side in range(2) for index in range(half)]
    if inverse:
        return [
            head + side * half + index
            for head in _starts(size, heads)
            for index, side in sorted(pairs)
        ]
    return [head + 2 * index + side for head in _starts(size, heads) for index, side in pairs]


def _starts(size: int, heads: int) -> range:
    return range(0, size, size // heads)


OPERATIONS: Mapping[str, Callable[[Call, Collected], Collected]] = {
    "MergeModulelist": _merge_modules,
    "SplitModulelist": _split_modules,
    "Concatenate": _concatenate,
    "Chunk": _chunk,
    "Split": _split,
    "Transpose": _transpose,
    "Interleave": _interleave,
    "PermuteForRope": _permute_for_rope,
}
