"""What transformers makes of the names of a checkpoint, asked of its own registry.

Only this module imports transformers, and with it torch: `registry.py` runs it in a process of its own. No
value is read: operations are followed on shapes, and what comes out is how every tensor is made of others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hfconvert.keymap.families.transformers_operations import (
    OPERATIONS,
    Call,
    Collected,
    Made,
    UnsupportedError,
    only,
)
from hfconvert.readers.config import with_floats

Shapes = Mapping[str, tuple[int, ...]]
Groups = dict[str, tuple[Any, Collected]]  # by the first name that a converter makes


def main() -> None:
    """Answer the question on stdin, on the last line of stdout."""
    answered = json.dumps(answer(json.load(sys.stdin)))
    sys.stdout.write(f"\n{answered}\n")


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """For a config, tensors (name to shape) and a direction: `tensors` by new name, with their recipes.

    `strangers` are names that the model does not have, `unsupported` what keeps others from being in the
    answer; `error` stands alone where there is no answer.
    """
    unsupported: list[str] = []
    try:
        model = _model(request["config"])
        shapes = {name: tuple(shape) for name, shape in request["tensors"].items()}
        there = request["to"] == "v5"
        made = (_forward if there else _backward)(model, shapes, unsupported)
    except UnsupportedError as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever a library raises is its answer
        return {"error": f"{type(error).__name__}: {error}"}
    known = set(model.state_dict())
    strangers = [name for name in made if name not in known] if there else []
    return {
        "tensors": {name: one.recipe for name, one in made.items()},
        "strangers": strangers,
        "unsupported": unsupported,
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


def _forward(model: Any, shapes: Shapes, unsupported: list[str]) -> dict[str, Made]:
    """From the names of a repository to those of the model in memory, as `from_pretrained` does it."""
    from transformers import conversion_mapping, core_model_loading

    mapping = conversion_mapping.get_model_conversion_mapping(model)
    renamings, converters = _sorted_out(mapping)
    meta, prefix = model.state_dict(), model.base_model_prefix
    groups: Groups = {}
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
    return found | _all_converted(groups, model, unsupported)


def _backward(model: Any, shapes: Shapes, unsupported: list[str]) -> dict[str, Made]:
    """From the names in memory to those of a repository, as `save_pretrained` does it."""
    from transformers import conversion_mapping, core_model_loading

    mapping = conversion_mapping.get_model_conversion_mapping(model, add_legacy=False)
    kept = [one for one in mapping if not isinstance(one, core_model_loading.PrefixChange)]
    renamings, converters = _sorted_out([one.reverse_transform() for one in reversed(kept)])
    groups: Groups = {}
    found: dict[str, Made] = {}
    for name in sorted(shapes, key=core_model_loading.dot_natural_key):
        renamed, pattern = core_model_loading.apply_converters(name, converters)
        one = Made(shapes[name], ["source", name])
        if pattern is None:
            found[core_model_loading.apply_renamings(name, renamings)] = one
        else:
            _collect(groups, converters, renamed, pattern, one)
    for name, one in _all_converted(groups, model, unsupported).items():
        found[core_model_loading.apply_renamings(name, renamings)] = one
    return found


def _all_converted(groups: Groups, model: Any, unsupported: list[str]) -> dict[str, Made]:
    """What the groups of tensors that are converted together become."""
    found: dict[str, Made] = {}
    for target, (converter, collected) in groups.items():
        try:
            found |= _converted(converter, target, collected, model)
        except UnsupportedError as error:
            unsupported.append(str(error))
    return found


def _sorted_out(mapping: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    from transformers import core_model_loading

    renamings = [one for one in mapping if isinstance(one, core_model_loading.WeightRenaming)]
    converters = [one for one in mapping if isinstance(one, core_model_loading.WeightConverter)]
    return renamings, converters


def _collect(
    groups: Groups,
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
        if kind not in OPERATIONS:
            message = f"the operation {kind}, which makes `{target}`, is not supported"
            raise UnsupportedError(message)
        collected = OPERATIONS[kind](Call(operation, converter, target, model), collected)
    whole = target.replace("*.", "0.") if "*." in target else target
    for pattern in collected:
        if pattern in whole:
            before, _, after = whole.partition(pattern)
            return {f"{before}{key}{after}": only(parts) for key, parts in collected.items()}
    return {key: only(parts) for key, parts in collected.items()}
