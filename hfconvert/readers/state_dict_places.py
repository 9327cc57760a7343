"""Which parts of a checkpoint are sets of weights, by names and by what is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hfconvert.pickles.values import Table
from hfconvert.readers.torch_walk import (
    Path,
    Walk,
    entries,
    is_array,
    is_module,
    is_script_object,
    is_tensor,
    leaves,
)

_SETS = """
    state_dict model_state_dict model_state model module net network weights params params_ema ema
    ema_state_dict state_dict_ema model_ema ema_model current_model_state best_model_state
    best_model_state_dict teacher student g_ema generator discriminator netG netD net_g net_d
    model_dict net_state_dict model_weights network_state_dict parameters ema_params ema_network
"""
_RUN = """
    optimizer optimizers optimizer_state optimizer_states optimizer_state_dict optim opt
    optimizer_state_dicts optim_state_dict base_optimizer_state last_optimizer_state lr_scheduler
    lr_schedulers scheduler schedulers lr_scheduler_state_dict scheduler_state_dict opt_param_scheduler
    scaler grad_scaler amp amp_scaling_state callbacks loops rng_state rng_states rng_tracker_states
    cuda_rng_state torch_rng_state random_rng_state np_rng_state frozen_param_fragments param_shapes
    buffer_names fp32_flat_groups
"""
SETS = frozenset(_SETS.split())  # where training code keeps a model, its averages and its partners
RUN = frozenset(_RUN.split())  # where it keeps what belongs to the training run
_WEIGHT_ENDINGS = ("weight", "bias", "running_mean", "running_var", "gamma", "beta", "kernel")
_MAX_NESTING = 4


def places(tree: Any, walk: Walk) -> list[tuple[Path, Any]]:
    """Where the sets are, and what is there: known containers, else the whole file."""
    if isinstance(tree, Table) and tree.kind == "archive":
        return [
            ((name, *path), value)
            for name, member in tree.items()
            for path, value in places(member, walk)
        ]
    if isinstance(tree, Table) and tree.kind == "torchscript":
        return [((key,), value) for key, value in tree.items()]
    named = list(_named(tree, (), walk, is_tensor)) or list(_named(tree, (), walk, is_array))
    if not named:
        return [((), tree)]
    return named + list(_alike(tree, {path[0] for path, _ in named}, walk))


def chosen_by_format(tree: Any, names: list[str]) -> str | None:
    """The set that the format says is the model: Lightning's `state_dict`, a script's parameters."""
    if isinstance(tree, Table) and tree.kind == "torchscript" and names:
        return names[0]
    found = entries(tree)
    keys = {key for key, _ in found if type(key) is str} if found is not None else set()
    lightning = "pytorch-lightning_version" in keys and "state_dict" in names
    return "state_dict" if lightning else (names[0] if len(names) == 1 else None)


def weights_within(tree: Any, walk: Walk, *, top: bool) -> Iterator[tuple[Path, Any]]:
    """The leaves of a set; where the set is the whole file, without what belongs to the training run."""
    if not top or entries(tree) is None or is_module(tree):
        yield from leaves(tree, walk)
        return
    if belongs_to_run(tree):
        return
    for key, value in entries(tree) or ():
        random = type(key) is str and key.endswith("rng_state")
        if not random and (is_tensor(value) or not (key in RUN or belongs_to_run(value))):
            yield from (((key, *path), leaf) for path, leaf in leaves(value, walk))


def belongs_to_run(value: Any) -> bool:
    """Whether a container is the state of an optimizer or of random number generators, whatever its name."""
    inner = entries(value)
    if inner is None:
        return False
    keys = {key for key, _ in inner if type(key) is str}
    return {"param_groups", "state"} <= keys or {"python", "numpy", "cpu"} <= keys


def _named(
    tree: Any, path: Path, walk: Walk, counts: Callable[[Any], bool]
) -> Iterator[tuple[Path, Any]]:
    """Known containers that hold tensors, and those within them where they hold no tensor of their own."""
    if is_module(tree) or is_script_object(tree) or len(path) == _MAX_NESTING:
        return
    for key, value in entries(tree) or ():
        if type(key) is not str or key not in SETS or belongs_to_run(value):
            continue
        if entries(value) is None or not any(counts(leaf) for _, leaf in leaves(value, walk)):
            continue
        inner = list(_named(value, (*path, key), walk, counts))
        own = any(counts(child) for _, child in entries(value) or ())
        yield from inner if inner and not own else [((*path, key), value)]


def _alike(tree: Any, taken: set[Any], walk: Walk) -> Iterator[tuple[Path, Any]]:
    """Unknown containers beside known ones that look like weights all the same."""
    for key, value in entries(tree) or ():
        if type(key) is not str or key in taken or key in RUN or belongs_to_run(value):
            continue
        if entries(value) is not None and any(map(_ends_like_weight, leaves(value, walk))):
            yield (key,), value


def _ends_like_weight(item: tuple[Path, Any]) -> bool:
    path, leaf = item
    last = path[-1] if path else None
    return is_tensor(leaf) and type(last) is str and last.rpartition(".")[2] in _WEIGHT_ENDINGS
