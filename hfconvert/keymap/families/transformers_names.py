"""What transformers makes of the names of a checkpoint, asked of its own registry.

Only this module imports transformers, and with it torch: `registry.py` runs it in a process of its own. No
value is read: operations are followed on shapes, and what comes out is how every tensor is made of others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hfconvert.readers.config import with_floats


class Made(NamedTuple):
    """A tensor to be: its shape, and how it is made: `["source", name]`, `["stack", dim, [...]]`, ..."""

    shape: tuple[int, ...]
    recipe: list[Any]


Collected = dict[str, list[Made]]


class UnsupportedError(Exception):
    """An operation that has no counterpart here."""


def main() -> None:
    """Answer the question on stdin, on the last line of stdout."""
    answered = json.dumps(answer(json.load(sys.stdin)))
    sys.stdout.write(f"\n{answered}\n")


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """For a config, tensors (name to shape) and a direction: `tensors` by new name, with their recipes.

    `strangers` are names that the model does not have; `error` stands alone where there is no answer.
    """
    try:
        model = _model(request["config"])
        shapes = {name: tuple(shape) for name, shape in request["tensors"].items()}
        there = request["to"] == "v5"
        made = _forward(model, shapes) if there else _backward(model, shapes)
    except UnsupportedError as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever a library raises is its answer
        return {"error": f"{type(error).__name__}: {error}"}
    known = set(model.state_dict())
    strangers = [name for name in made if name not in known] if there else []
    return {
        "tensors": {name: one.recipe for name, one in made.items()},
        "strangers": strangers,
    }


def _model(config: Mapping[str, Any]) -> Any:
    """The model of a configuration, without storage."""
    import torch
    import transformers

    rest = with_floats(config)
    names = rest.get("architectures") or []
    made = transformers.AutoConfig.for_model(rest.pop("model_type", ""), **rest)
    kind = getattr(transformers, names[0], None) if names else None
    if kind is None:
        message = (
            f"this version of transformers has no model class {names[0] if names else '(none)'}"
        )
        raise UnsupportedError(message)
    with torch.device("meta"):
        return kind(made)


def _forward(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Made]:
    """From the names of a repository to those of the model in memory, as `from_pretrained` does it."""
    from transformers import conversion_mapping, core_model_loading

    mapping = conversion_mapping.get_model_conversion_mapping(model)
    renamings, converters = _sorted_out(mapping)
    meta, prefix = model.state_dict(), model.base_model_prefix
    groups: dict[str, tuple[Any, Collected]] = {}
    found: dict[str, Made] = {}
    for name in sorted(shapes, key=core_model_loading.dot_natural_key):
        rename = core_model_loading.rename_source_key
        renamed, pattern = rename(name, renamings, converters, prefix, meta)
        if renamed not in meta and name in meta:
            renamed, pattern = rename(name, [], [], prefix, meta)
        one = Made(shapes[name], ["source", name])
        if pattern is None:
            found[renamed] = one
        else:
            _collect(groups, converters, renamed, pattern, one)
    for target, (converter, collected) in groups.items():
        found |= _converted(converter, target, collected, model)
    return found


def _backward(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Made]:
    """From the names in memory to those of a repository, as `save_pretrained` does it."""
    from transformers import conversion_mapping, core_model_loading

    mapping = conversion_mapping.get_model_conversion_mapping(model, add_legacy=False)
    kept = [one for one in mapping if not isinstance(one, core_model_loading.PrefixChange)]
    renamings, converters = _sorted_out([one.reverse_transform() for one in reversed(kept)])
    groups: dict[str, tuple[Any, Collected]] = {}
    found: dict[str, Made] = {}
    for name in sorted(shapes, key=core_model_loading.dot_natural_key):
        renamed, pattern = core_model_loading.apply_converters(name, converters)
        one = Made(shapes[name], ["source", name])
        if pattern is None:
            found[core_model_loading.apply_renamings(name, renamings)] = one
        else:
            _collect(groups, converters, renamed, pattern, one)
    for target, (converter, collected) in groups.items():
        for name, one in _converted(converter, target, collected, model).items():
            found[core_model_loading.apply_renamings(name, renamings)] = one
    return found


def _sorted_out(mapping: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    from transformers import core_model_loading

    renamings = [one for one in mapping if isinstance(one, core_model_loading.WeightRenaming)]
    converters = [one for one in mapping if isinstance(one, core_model_loading.WeightConverter)]
    return renamings, converters


def _collect(
    groups: dict[str, tuple[Any, Collected]],
    converters: Sequence[Any],
    target: str,
    pattern: str,
    one: Made,
) -> None:
    """Put a tensor with those that are converted together with it."""
    owner = next(each for each in reversed(converters) if pattern in each.source_patterns)
    _, collected = groups.setdefault(target, (owner, {}))
    collected.setdefault(pattern, []).append(one)


def _converted(converter: Any, target: str, collected: Collected, model: Any) -> dict[str, Made]:
    """The results of a converter's operations, under their whole names."""
    for operation in converter.operations:
        kind = type(operation).__name__
        if kind not in _OPERATIONS:
            message = f"the operation {kind}, which makes `{target}`, is not supported"
            raise UnsupportedError(message)
        collected = _OPERATIONS[kind](_Call(operation, converter, target, model), collected)
    whole = target.replace("*.", "0.") if "*." in target else target
    for pattern in collected:
        if pattern in whole:
            before, _, after = whole.partition(pattern)
            return {f"{before}{key}{after}": _only(parts) for key, parts in collected.items()}
    return {key: _only(parts) for key, parts in collected.items()}


class _Call(NamedTuple):
    """An operation, the converter that it belongs to, the first name that it makes, the model."""

    operation: Any
    converter: Any
    target: str
    model: Any


def _only(parts: Sequence[Made]) -> Made:
    if len(parts) != 1:
        message = f"{len(parts)} tensors where one is expected"
        raise UnsupportedError(message)
    return parts[0]


def _single(collected: Collected) -> Made:
    return _only([part for parts in collected.values() for part in parts])


def _one_target(call: _Call) -> str:
    if len(call.converter.target_patterns) != 1:
        message = f"several targets of {type(call.operation).__name__}"
        raise UnsupportedError(message)
    return str(call.converter.target_patterns[0])


def _merge_modules(call: _Call, collected: Collected) -> Collected:
    alone = _one_target(call) if len(collected) == 1 else None
    return {
        alone or pattern: [_stacked(parts, call.operation.dim)]
        for pattern, parts in collected.items()
    }


def _stacked(parts: Sequence[Made], dim: int) -> Made:
    shape = parts[0].shape
    recipe = ["stack", dim, [part.recipe for part in parts]]
    return Made((*shape[:dim], len(parts), *shape[dim:]), recipe)


def _split_modules(call: _Call, collected: Collected) -> Collected:
    alone = _one_target(call) if len(collected) == 1 else None
    dim, found = call.operation.dim, {}
    for pattern, parts in collected.items():
        whole = _only(parts)
        shape = (*whole.shape[:dim], *whole.shape[dim + 1 :])
        for index in range(whole.shape[dim]):
            name = (alone or pattern).replace("*", str(index))
            found[name] = [Made(shape, ["select", dim, index, whole.recipe])]
    return found


def _concatenate(call: _Call, collected: Collected) -> Collected:
    dim = call.operation.dim
    ordered = [
        part for pattern in call.converter.source_patterns for part in collected.get(pattern, ())
    ]
    shape = ordered[0].shape
    size = sum(part.shape[dim] for part in ordered)
    recipe = ["concat", dim, [part.recipe for part in ordered]]
    return {_one_target(call): [Made((*shape[:dim], size, *shape[dim + 1 :]), recipe)]}


def _chunk(call: _Call, collected: Collected) -> Collected:
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


def _split(call: _Call, collected: Collected) -> Collected:
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


def _transpose(call: _Call, collected: Collected) -> Collected:
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


def _interleave(call: _Call, collected: Collected) -> Collected:
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


_OPERATIONS: Mapping[str, Callable[[_Call, Collected], Collected]] = {
    "MergeModulelist": _merge_modules,
    "SplitModulelist": _split_modules,
    "Concatenate": _concatenate,
    "Chunk": _chunk,
    "Split": _split,
    "Transpose": _transpose,
    "Interleave": _interleave,
}
