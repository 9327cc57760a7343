"""Which parts of a checkpoint are weights: the sets, their tensors by name, and what else there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hfconvert.errors import Problem, raise_any, source_problem
from hfconvert.findings import Finding, warning
from hfconvert.pickles.values import StorageRef, Stub, TensorRef
from hfconvert.readers.contents import WeightSet
from hfconvert.readers.torch_tensor import lazy_tensor, stub_tensor
from hfconvert.readers.torch_walk import (
    Path,
    entries,
    holds_tensors,
    is_module,
    is_script_object,
    is_tensor,
    leaves,
    printed,
)
from hfconvert.tensors.lazy import LazyTensor

SETS = (
    *(
        "state_dict",
        "model_state_dict",
        "model_state",
        "model",
        "module",
        "net",
        "network",
        "weights",
    ),
    *("params", "params_ema", "ema", "ema_state_dict", "state_dict_ema", "model_ema", "ema_model"),
    *(
        "current_model_state",
        "best_model_state",
        "best_model_state_dict",
        "teacher",
        "student",
        "g_ema",
    ),
    *("generator", "discriminator", "netG", "netD", "net_g", "net_d", "encoder_state_dict"),
)
OPTIMIZERS = (
    *(
        "optimizer",
        "optimizers",
        "optimizer_state",
        "optimizer_states",
        "optimizer_state_dict",
        "optim",
    ),
    *(
        "opt",
        "optimizer_state_dicts",
        "optim_state_dict",
        "base_optimizer_state",
        "last_optimizer_state",
    ),
    *("lr_scheduler", "lr_schedulers", "scheduler", "schedulers", "lr_scheduler_state_dict"),
    *(
        "scheduler_state_dict",
        "opt_param_scheduler",
        "scaler",
        "grad_scaler",
        "amp",
        "callbacks",
        "loops",
    ),
)
_RANDOM = (
    "rng_state",
    "rng_states",
    "cuda_rng_state",
    "torch_rng_state",
    "random_rng_state",
    "gen",
)
_WEIGHT_ENDINGS = ("weight", "bias", "running_mean", "running_var", "gamma", "beta", "kernel")
_MAX_NESTING = 4


@dataclass(frozen=True, slots=True)
class Sets:
    """The sets of weights of a checkpoint; `others` are the tensors outside of them, by their whole names."""

    sets: tuple[WeightSet, ...]
    others: Mapping[str, LazyTensor]
    findings: tuple[Finding, ...]


def weight_sets(tree: Any, file: str = "the file") -> tuple[WeightSet, ...]:
    """The sets of weights; none where there are only optimizer states or other things."""
    return read_sets(tree, file).sets


def read_sets(tree: Any, file: str) -> Sets:
    """Find the sets of weights of what a file holds. UserError (exit 3) where two tensors have one name."""
    places = _places(tree)
    findings: list[Finding] = []
    problems: list[Problem] = []
    sets = []
    for path, value in places:
        name = printed(path)
        tensors = _tensors(value, file, findings, problems, top=not path)
        if tensors:
            sets.append(WeightSet(name, tensors))
    raise_any(problems)
    return Sets(tuple(sets), _others(tree, {path for path, _ in places}, file), tuple(findings))


def tensors_of(tree: Any, file: str) -> dict[str, LazyTensor]:
    """All the tensors of a part of a checkpoint, by their dotted names. UserError (exit 3)."""
    problems: list[Problem] = []
    tensors = _tensors(tree, file, [], problems, top=False)
    raise_any(problems)
    return tensors


def _places(tree: Any) -> list[tuple[Path, Any]]:
    """Where the sets are: known containers, else the whole."""
    named = list(_named(tree, (), _MAX_NESTING))
    if named:
        return named + list(_alike(tree, {path[0] for path, _ in named}))
    return [((), tree)]


def _named(tree: Any, path: Path, depth: int) -> Iterator[tuple[Path, Any]]:
    """Known containers that hold tensors, and those within them where they hold no tensor of their own."""
    if is_module(tree) or is_script_object(tree) or depth == 0:
        return
    for key, value in entries(tree) or ():
        if (
            key not in SETS
            or entries(value) is None
            or is_optimizer(value)
            or not holds_tensors(value)
        ):
            continue
        inner = list(_named(value, (*path, key), depth - 1))
        own = any(is_tensor(child) for _, child in entries(value) or ())
        yield from inner if inner and not own else [((*path, key), value)]


def _alike(tree: Any, taken: set[Any]) -> Iterator[tuple[Path, Any]]:
    """Unknown containers beside known ones that look like weights all the same."""
    for key, value in entries(tree) or ():
        if key in taken or key in OPTIMIZERS or entries(value) is None or is_optimizer(value):
            continue
        names = [path[-1] for path, leaf in leaves(value) if is_tensor(leaf) and path]
        if any(type(name) is str and name.split(".")[-1] in _WEIGHT_ENDINGS for name in names):
            yield (key,), value


def is_optimizer(value: Any) -> bool:
    """Whether a container is the state of an optimizer, whatever its name."""
    inner = entries(value)
    return inner is not None and {"param_groups", "state"} <= {
        key for key, _ in inner if type(key) is str
    }


def _weights(tree: Any, *, top: bool) -> Iterator[tuple[Path, Any]]:
    """The leaves of a set; at the top of a file, without optimizers and generators of random numbers."""
    if not top or entries(tree) is None or is_module(tree):
        yield from leaves(tree)
        return
    if is_optimizer(tree):
        return
    for key, value in entries(tree) or ():
        container = not is_tensor(value)
        if key in _RANDOM or (container and (key in OPTIMIZERS or is_optimizer(value))):
            continue
        yield from (((key, *path), leaf) for path, leaf in leaves(value))


def _tensors(
    tree: Any, file: str, findings: list[Finding], problems: list[Problem], *, top: bool
) -> dict[str, LazyTensor]:
    tensors: dict[str, LazyTensor] = {}
    unnamed: list[str] = []
    for path, value in _weights(tree, top=top):
        if not is_tensor(value) and not _stands_for_tensor(value):
            continue
        name = printed(path) if path else "tensor"
        if name in tensors:
            problems.append(_twice(name, file))
        if not path or not all(type(key) is str for key in path):
            unnamed.append(name)
        tensors[name] = _lazy(value, name, file)
    if unnamed:
        findings.append(_renamed(unnamed, file))
    return tensors


def _lazy(value: Any, name: str, file: str) -> LazyTensor:
    if isinstance(value, TensorRef):
        return lazy_tensor(value, name, file)
    if type(value) is Stub:
        return stub_tensor(value, name, file)
    found: LazyTensor = value
    return found


def _stands_for_tensor(value: Any) -> bool:
    """Whether an object of an unknown class is a tensor by its name, or made of tensors or storages."""
    if type(value) is not Stub:
        return False
    last = value.name.rpartition(".")[2]
    if last.startswith("_rebuild") or last.endswith(
        ("Tensor", "Parameter", "ScriptObject", "PackedParams")
    ):
        return True
    held = (*value.args, value.state)
    return any(isinstance(item, (TensorRef, StorageRef)) or holds_tensors(item) for item in held)


def _others(tree: Any, taken: set[Path], file: str) -> dict[str, LazyTensor]:
    others: dict[str, LazyTensor] = {}
    if () in taken and entries(tree) is None:
        return others
    kept = {path for path, _ in _weights(tree, top=True)} if () in taken else set()
    for path, value in leaves(tree):
        inside = path in kept or any(path[: len(place)] == place for place in taken if place)
        if isinstance(value, TensorRef) and not inside:
            name = printed(path)
            others[name] = lazy_tensor(value, name, file)
    return others


def _renamed(names: list[str], file: str) -> Finding:
    listed = ", ".join(repr(name) for name in names[:4]) + (", ..." if len(names) > 4 else "")
    message = f"{len(names)} tensors have no name, or a key that is no string; written as {listed}"
    return warning("names", file, message, "rename them in key_map")


def _twice(name: str, file: str) -> Problem:
    return source_problem(
        "two tensors have this name",
        why=f"{file} nests its containers so that their dotted names are the same",
        do="write the checkpoint again with other names",
        subject=name,
        check="names",
    )
