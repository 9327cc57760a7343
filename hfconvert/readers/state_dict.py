"""The weights of a checkpoint: its sets, their tensors by name, and the tensors outside of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hfconvert.errors import Problem, UserError, raise_any, source_problem
from hfconvert.findings import Finding, info, warning
from hfconvert.pickles.values import ArrayRef, StorageRef, Stub, TensorRef
from hfconvert.readers.contents import WeightSet
from hfconvert.readers.state_dict_facts import JSON, facts
from hfconvert.readers.state_dict_places import chosen_by_format, places, weights_within
from hfconvert.readers.torch_array import array_tensor
from hfconvert.readers.torch_tensor import lazy_tensor, stub_tensor
from hfconvert.readers.torch_walk import (
    Path,
    Walk,
    entries,
    holds_tensors,
    is_array,
    is_tensor,
    leaves,
    printed,
)
from hfconvert.tensors.lazy import LazyTensor

__all__ = ["JSON", "Sets", "facts", "no_weights", "read_sets", "tensors_of", "weight_sets"]

_LISTED = 5


@dataclass(frozen=True, slots=True)
class Sets:
    """The sets of weights of a checkpoint.

    `default` is the one that the format says is the model, or the only one; None where a choice is needed.
    `others` are the tensors outside of all sets, by their whole names.
    """

    sets: tuple[WeightSet, ...]
    default: str | None
    others: Mapping[str, LazyTensor]
    findings: tuple[Finding, ...]


def weight_sets(tree: Any, file: str = "the file") -> tuple[WeightSet, ...]:
    """The sets of weights; none where there are only optimizer states or other things."""
    return read_sets(tree, file).sets


def read_sets(tree: Any, file: str) -> Sets:
    """Find the sets of weights of what a file holds. UserError (exit 3) where two tensors have one name."""
    found = _Found(file)
    sets = []
    taken: list[Path] = []
    for path, value in places(tree, found.walk):
        tensors = found.tensors(value, top=not path)
        if tensors:
            sets.append(WeightSet(printed(path), tensors))
            taken.append(path)
    raise_any(found.problems)
    default = chosen_by_format(tree, [one.name for one in sets])
    others = _others(tree, taken, file, found.walk)
    if sets and others:
        listed = _fold(list(others))
        message = f"{len(others)} tensors belong to the training run, not to the weights: {listed}"
        found.findings.append(info("source", file, message))
    return Sets(tuple(sets), default, others, tuple(found.findings))


def tensors_of(tree: Any, file: str) -> dict[str, LazyTensor]:
    """All the tensors of a part of a checkpoint, by their dotted names. UserError (exit 3)."""
    found = _Found(file)
    tensors = found.tensors(tree, top=False)
    raise_any(found.problems)
    return tensors


def no_weights(
    tree: Any, file: str, others: Mapping[str, LazyTensor], strangers: Sequence[str] = ()
) -> UserError:
    """Why a file without sets of weights is refused (exit 3): what it holds instead.

    `strangers` are names that its pickle asks for and that belong to no library of weights.
    """
    inner = entries(tree)
    keys = ", ".join(printed((key,)) for key, _ in list(inner)[:_LISTED]) if inner else ""
    if others:
        what = f"it holds no weights, only {len(others)} tensors of an optimizer or the like"
        why = "training code keeps the state of the optimizer in a file of its own"
    else:
        what = "it holds no tensors"
        why = "it is a checkpoint of something else, such as settings, or no checkpoint"
        if strangers:
            asked = ", ".join(strangers[:_LISTED]) + (", ..." if len(strangers) > _LISTED else "")
            why = f"its pickle holds objects of another program, made of {asked}"
    told = f"{what} ({keys})" if keys else what
    return UserError(
        source_problem(told, why=why, do="name the file that holds the weights", subject=file)
    )


@dataclass(slots=True)
class _Found:
    """What is found in one file, with what there is to say about it."""

    file: str
    walk: Walk = field(default_factory=Walk)
    findings: list[Finding] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def tensors(self, tree: Any, *, top: bool) -> dict[str, LazyTensor]:
        """The tensors of a set; numpy arrays where it has nothing else."""
        items = list(weights_within(tree, self.walk, top=top))
        chosen, rest = _parted(items, self.walk)
        if not any(is_tensor(value) for _, value in chosen):
            arrays = [item for item in rest if is_array(item[1])]
            if arrays:
                chosen, rest = chosen + arrays, [item for item in rest if not is_array(item[1])]
                told = f"its {len(arrays)} numpy arrays are read as tensors"
                self.findings.append(info("source", self.file, told))
        tensors = self._named(chosen)
        if tensors:
            self._tell_left_out(rest)
        return tensors

    def _named(self, items: list[tuple[Path, Any]]) -> dict[str, LazyTensor]:
        tensors: dict[str, LazyTensor] = {}
        unnamed: list[str] = []
        for path, value in items:
            name = printed(path) if path else "tensor"
            if name in tensors:
                self.problems.append(_twice(name, self.file))
            if not path or not all(type(key) is str for key in path):
                unnamed.append(name)
            tensors[name] = _lazy(value, name, self.file)
        if unnamed:
            listed = _fold([repr(name) for name in unnamed])
            message = f"{len(unnamed)} tensors have no name, or a key that is no string; written as {listed}"
            self.findings.append(warning("names", self.file, message, "rename them in key_map"))
        return tensors

    def _tell_left_out(self, items: list[tuple[Path, Any]]) -> None:
        arrays = [printed(path) for path, value in items if is_array(value)]
        if arrays:
            message = f"{len(arrays)} numpy arrays beside the tensors are left out: {_fold(arrays)}"
            hint = "where they are weights, save them as tensors, by torch.from_numpy"
            self.findings.append(warning("source", self.file, message, hint))
        told = [
            f"{printed(path)} ({_kind(value)})"
            for path, value in items
            if value is not None and not is_array(value)
        ]
        if told:
            message = f"{len(told)} values beside the tensors are no tensors: {_fold(told)}"
            self.findings.append(info("source", self.file, message))


def _parted(
    items: list[tuple[Path, Any]], walk: Walk
) -> tuple[list[tuple[Path, Any]], list[tuple[Path, Any]]]:
    """What counts as a tensor, and the rest."""
    chosen: list[tuple[Path, Any]] = []
    rest: list[tuple[Path, Any]] = []
    for item in items:
        (chosen if _counts(item[1], walk) else rest).append(item)
    return chosen, rest


def _lazy(value: Any, name: str, file: str) -> LazyTensor:
    if isinstance(value, TensorRef):
        return lazy_tensor(value, name, file)
    if isinstance(value, ArrayRef):
        return array_tensor(value, name, file)
    if type(value) is Stub:
        return stub_tensor(value, name, file)
    found: LazyTensor = value
    return found


def _counts(value: Any, walk: Walk) -> bool:
    """Whether a leaf is a tensor, or an object of an unknown class that stands for one.

    By its name it does, or because it is made of tensors or storages.
    """
    if is_tensor(value) or type(value) is not Stub:
        return is_tensor(value)
    last = value.name.rpartition(".")[2]
    if last.startswith("_rebuild") or last.endswith(
        ("Tensor", "Parameter", "ScriptObject", "PackedParams")
    ):
        return True
    held = (*value.args, value.state)
    return any(
        isinstance(item, (TensorRef, StorageRef)) or holds_tensors(item, walk) for item in held
    )


def _others(tree: Any, taken: list[Path], file: str, walk: Walk) -> dict[str, LazyTensor]:
    whole = () in taken
    kept = {path for path, _ in weights_within(tree, walk, top=True)} if whole else set()
    others: dict[str, LazyTensor] = {}
    for path, value in leaves(tree, walk):
        inside = path in kept if whole else any(path[: len(place)] == place for place in taken)
        if isinstance(value, TensorRef) and not inside:
            name = printed(path)
            others[name] = lazy_tensor(value, name, file)
    return others


def _kind(value: Any) -> str:
    return value.name if type(value) is Stub else type(value).__name__


def _fold(names: list[str]) -> str:
    return ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")


def _twice(name: str, file: str) -> Problem:
    return source_problem(
        "two tensors have this name",
        why=f"{file} nests its containers so that their dotted names are the same",
        do="write the checkpoint again with other names",
        subject=name,
        check="names",
    )
