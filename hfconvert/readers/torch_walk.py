"""Walk over what a pickle turned into, bounded in depth and width, in the order of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hfconvert.errors import UserError, source_problem
from hfconvert.pickles.values import ArrayRef, Global, Group, Stub, TensorRef
from hfconvert.tensors.leaf import Leaf

MAX_DEPTH = 64
MAX_VISITS = 4_000_000
MAX_NAME = 4096

Path = tuple[Any, ...]


class Walk:
    """How many values may still be visited, over all the walks through one file."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_VISITS

    def visit(self) -> None:
        """Spend one visit. UserError (exit 3) when none is left."""
        self.left -= 1
        if self.left < 0:
            raise _too_much(
                f"more than {MAX_VISITS} values, counted as often as they are referred to"
            )


def leaves(tree: Any, walk: Walk) -> Iterator[tuple[Path, Any]]:
    """Every value that holds no others, with the keys that lead to it. UserError (exit 3) past the bounds."""
    return _leaves(tree, (), walk)


def holds_tensors(tree: Any, walk: Walk) -> bool:
    """Whether there is a tensor anywhere in it."""
    return any(is_tensor(value) for _, value in leaves(tree, walk))


def is_tensor(value: Any) -> bool:
    """Whether the value is a torch tensor, or one that another format holds."""
    return isinstance(value, (TensorRef, Leaf))


def is_array(value: Any) -> bool:
    """Whether the value is a numpy array of numbers."""
    return isinstance(value, ArrayRef) and type(value.data) is not list


def entries(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """Keys and values of a dictionary, of an object that acts as one, or of a module; None for others."""
    if isinstance(value, dict):
        return value.items()
    if type(value) is not Stub:
        return None
    if is_module(value):
        return _module_entries(value.state)
    if value.items:
        return value.items
    return value.state.items() if is_script_object(value) else None


def is_module(value: Any) -> bool:
    """Whether the value is a pickled `torch.nn.Module` of any class."""
    return (
        type(value) is Stub
        and isinstance(value.state, dict)
        and "_parameters" in value.state
        and "_modules" in value.state
    )


def is_script_object(value: Any) -> bool:
    """Whether the value is an object of a class that a TorchScript archive defines."""
    return (
        type(value) is Stub
        and type(value.kind) is Global
        and value.kind.module.partition(".")[0] == "__torch__"
        and isinstance(value.state, dict)
    )


def printed(path: Path) -> str:
    """The dotted name of a place: keys as Python prints them."""
    name = ".".join(key if type(key) is str else _printed(key) for key in path)
    if len(name) > MAX_NAME:
        raise UserError(
            source_problem(
                f"a name of {len(name)} characters",
                why="its containers are nested deep, or the file is made to mislead",
                do="write the checkpoint again",
                subject=name[:80] + "...",
            )
        )
    return name


def _leaves(value: Any, path: Path, walk: Walk) -> Iterator[tuple[Path, Any]]:
    walk.visit()
    inner = _inner(value)
    if inner is None:
        yield path, value
        return
    if len(path) >= MAX_DEPTH:
        raise _too_much(f"more than {MAX_DEPTH} containers in each other")
    for key, child in inner:
        yield from _leaves(child, (*path, key), walk)


def _inner(value: Any) -> Iterable[tuple[Any, Any]] | None:
    if type(value) in (list, tuple):
        return enumerate(value)
    if isinstance(value, Group):
        return enumerate(value.items)
    inner = entries(value)
    if inner is None and type(value) is Stub and value.appended:
        return enumerate(value.appended)
    return inner


def _module_entries(state: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """What `state_dict()` of the module would hold: parameters, persistent buffers, then its modules."""
    fleeting = state.get("_non_persistent_buffers_set")
    hidden = fleeting.items if isinstance(fleeting, Group) else ()
    for part in ("_parameters", "_buffers", "_modules"):
        for key, child in entries(state.get(part)) or ():
            if child is not None and not (part == "_buffers" and key in hidden):
                yield key, child


def _printed(key: Any) -> str:
    if isinstance(key, Stub):
        return f"<{key.name}>"
    return str(key)


def _too_much(what: str) -> UserError:
    return UserError(
        source_problem(
            f"it holds {what}",
            why="an object that holds itself, or a file that is made to mislead",
            do="write the checkpoint again with the weights alone",
        )
    )
