"""The names and shapes that a model class wants, by transformers itself; the class is built without memory.

The only part of this check that imports torch and transformers, inside functions. Names are brought to the
form that checkpoints have on disk by `revert_weight_conversion`, and names of a checkpoint to those of the
class by `rename_source_key`; both are of transformers' `core_model_loading`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hfconvert.checks.architecture.fit import Found, Wanted, fitted
from hfconvert.readers.config import with_floats

Rename = Callable[[str], str]


class Names(NamedTuple):
    """What a class wants, and how names of a checkpoint become its own."""

    wanted: Wanted
    rename: Rename


class UnfitError(Exception):
    """There is no class to hold the tensors against."""


def fit(request: Mapping[str, Any]) -> dict[str, Any]:
    """How tensors fit the class of a configuration.

    The request: `config` (the content of config.json), `folder` (where it lies), `custom` (whether code
    beside it may run), `tensors` (name to torch dtype and shape). The answer is that of `fit.fitted`, with
    `class`; or `skipped` with the reason.
    """
    import torch

    try:
        cls, config = model_class(
            request["config"], Path(request["folder"]), custom=request["custom"]
        )
    except UnfitError as error:
        return {"skipped": str(error)}
    with torch.device("meta"):
        model = cls(config)
    names = names_of(model)
    tensors = {
        name: Found(is_float=_is_float(dtype), shape=tuple(shape))
        for name, (dtype, shape) in request["tensors"].items()
    }
    return {"class": cls.__name__, **fitted(names.wanted, tensors, names.rename)}


def names_of(model: Any) -> Names:
    """What a model wants, and what transformers makes of the names of a checkpoint for it."""
    wanted = _wanted(model)
    return Names(wanted, _rename(model, wanted.native))


def model_class(config: Mapping[str, Any], folder: Path, *, custom: bool) -> tuple[Any, Any]:
    """The class that a configuration names, and the configuration as an object of its own kind.

    UnfitError where transformers has no such class, or where it takes code that may not run.
    """
    import transformers

    name = config["architectures"][0]
    cls = getattr(transformers, name, None)
    if cls is not None and hasattr(cls, "config_class"):
        return cls, cls.config_class.from_dict(with_floats(config))
    if not config.get("auto_map"):
        raise UnfitError(f"transformers {transformers.__version__} has no class {name}")
    if not custom:
        raise UnfitError(
            f"{name} is code of the repository, which was not run: that takes "
            "validate.trust_remote_code and --allow-remote-code"
        )
    return _custom_class(name, config["auto_map"], folder)


def _custom_class(name: str, auto_map: Mapping[str, Any], folder: Path) -> tuple[Any, Any]:
    from transformers import AutoConfig
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    references = [one for one in auto_map.values() if isinstance(one, str) and one.endswith(name)]
    if not references:
        raise UnfitError(f"auto_map names no {name}")
    cls = get_class_from_dynamic_module(references[0], str(folder))
    return cls, AutoConfig.from_pretrained(folder, trust_remote_code=True)


def _wanted(model: Any) -> Wanted:
    """What the class wants: on disk, in memory, which names are tied, what it says may differ."""
    state = {
        name: tensor
        for name, tensor in model.state_dict().items()
        if not name.endswith("_extra_state")
    }
    named = dict(model.named_parameters(remove_duplicate=False))
    buffers = {name for name, _ in model.named_buffers(remove_duplicate=False)}
    return Wanted(
        disk={name: tuple(tensor.shape) for name, tensor in _on_disk(model, state).items()},
        native={name: tuple(tensor.shape) for name, tensor in state.items()},
        floats={name for name, tensor in state.items() if tensor.is_floating_point()},
        ties=dict(getattr(model, "all_tied_weights_keys", None) or {}),
        may_miss=tuple(getattr(model, "_keys_to_ignore_on_load_missing", None) or ()),
        may_exceed=tuple(getattr(model, "_keys_to_ignore_on_load_unexpected", None) or ()),
        buffers=buffers - named.keys(),
    )


def _on_disk(model: Any, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state dict under the names and in the shapes that checkpoints have."""
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:  # before transformers 5 both forms were one
        return state
    reverted: Mapping[str, Any] = revert_weight_conversion(model, dict(state))
    return reverted


def _rename(model: Any, native: Mapping[str, Any]) -> Rename:
    """What transformers makes of a name in a checkpoint when it loads one."""
    try:
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import (
            WeightConverter,
            WeightRenaming,
            rename_source_key,
        )
    except ImportError:
        return lambda name: name
    transforms = get_model_conversion_mapping(model)
    renamings = [one for one in transforms if isinstance(one, WeightRenaming)]
    converters = [one for one in transforms if isinstance(one, WeightConverter)]
    prefix, known = model.base_model_prefix, dict(native)

    def renamed(name: str) -> str:
        return str(rename_source_key(name, renamings, converters, prefix, known)[0])

    return renamed


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))
