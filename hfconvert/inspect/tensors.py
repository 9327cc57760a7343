"""The tensors of all the files, as the document lists and counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hfconvert.inspect.listing import printable
from hfconvert.inspect.look import Seen
from hfconvert.planning.decide import ties_by_storage
from hfconvert.readers.contents import Contents, WeightSet
from hfconvert.tensors.checkpoint import found
from hfconvert.tensors.lazy import LazyTensor, TensorSpec

Tied = Mapping[str, str]  # `kept` and `dropped`


def listed_tensors(seen: Iterable[Seen]) -> list[dict[str, Any]]:
    """Every tensor of every role: those of weights, of optimizers, and others beside them.

    Where a file has several sets of weights, names begin with that of their set. Files of weights that are
    left aside are not listed.
    """
    return [item for one in seen if one.contents for item in _of_file(one, one.contents)]


def totals(
    tensors: Iterable[Mapping[str, Any]], model: Mapping[str, LazyTensor], ties: Iterable[Tied]
) -> dict[str, Any]:
    """Counts and bytes over all roles, dtypes of the weights.

    `parameters` are those of the model: of one set of weights, ties counted once.
    """
    twice = {tie["dropped"] for tie in ties}
    by_dtype: Counter[str] = Counter()
    by_role: Counter[str] = Counter({"weights": 0, "optimizer": 0, "other": 0})
    count = 0
    for item in tensors:
        by_role[item["role"]] += item["bytes"]
        count += 1
        if item["role"] == "weights":
            by_dtype[item["dtype"]] += item["bytes"]
    return {
        "tensors": count,
        "parameters": sum(t.spec.elements for name, t in model.items() if name not in twice),
        "bytes": sum(by_role.values()),
        "by_dtype": dict(by_dtype),
        "by_role": dict(by_role),
    }


def listed_sets(seen: Iterable[Seen]) -> list[dict[str, Any]]:
    """The sets of weights over all files; `chosen` is the one that is read where the recipe names none."""
    found: dict[str, dict[str, Any]] = {}
    for one in seen:
        if one.role != "weights" or one.contents is None:
            continue
        for part in one.contents.sets:
            chosen = part.name == one.contents.default
            empty = {"name": part.name, "tensors": 0, "bytes": 0, "chosen": chosen}
            item = found.setdefault(part.name, empty)
            item["tensors"] += len(part.tensors)
            item["bytes"] += part.nbytes
    return list(found.values())


def model_tensors(seen: Iterable[Seen]) -> dict[str, LazyTensor]:
    """The tensors of the set that is the model, over all files; of the first set where none is chosen."""
    tensors: dict[str, LazyTensor] = {}
    for one in seen:
        if one.role == "weights" and one.contents and one.contents.sets:
            tensors |= _model_set(one.contents).tensors
    return tensors


def listed_ties(tensors: Mapping[str, LazyTensor]) -> list[Tied]:
    """Names over the same bytes. Pairs that only their values would tell are not looked for."""
    ties = ties_by_storage(found(tensors))
    return [{"kept": printable(tie.kept), "dropped": printable(tie.dropped)} for tie in ties]


def _model_set(contents: Contents) -> WeightSet:
    chosen = (one for one in contents.sets if one.name == contents.default)
    return next(chosen, contents.sets[0])


def _of_file(one: Seen, contents: Contents) -> Iterator[dict[str, Any]]:
    prefixed = len(contents.sets) > 1
    for weights in contents.sets if one.role == "weights" else ():
        for name, tensor in weights.tensors.items():
            full = f"{weights.name}.{name}" if prefixed and weights.name else name
            yield _tensor(full, tensor.spec, one.file.name, "weights")
    for other in contents.others:
        yield _tensor(other.name, other.spec, one.file.name, other.role)


def _tensor(name: str, spec: TensorSpec, file: str, role: str) -> dict[str, Any]:
    return {
        "name": printable(name),
        "dtype": spec.dtype.code,
        "shape": list(spec.shape),
        "bytes": spec.nbytes,
        "file": printable(file),
        "role": role,
    }
