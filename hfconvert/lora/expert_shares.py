"""Low-rank updates of stacked experts (`target_parameters`), over stacks and over experts one by one.

Source of the layouts: `ParamWrapper` of `peft/tuners/lora/layer.py`. Up to 0.18 it takes the dimensions of
a stack as (experts, in, out); later as (experts, out, in), unless the class says that it is transposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from hfconvert.errors import Problem, recipe_problem
from hfconvert.lora.base import STACKED, Base
from hfconvert.lora.place import GIVE, OTHER, Place, Shape, Share
from hfconvert.lora.rules import is_target_parameter
from hfconvert.lora.terms import Stack

# Model types whose experts are [experts, in, out]; source: `is_transposed` of transformers' expert classes.
TRANSPOSED_TYPES = frozenset({"gpt_oss", "llama4", "llama4_text"})
# Parameters in the order in which classes define them: the first is wrapped innermost.
_DEFINED = ("gate_up_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, slots=True)
class Piece:
    """A tensor of the base that holds a stack, or rows of one of its matrices."""

    name: str
    expert: int | None = None
    row: int = 0


@dataclass(frozen=True, slots=True)
class Stacked:
    """A parameter of three dimensions as the model has it, and the tensors that hold it."""

    parameter: str
    shape: Shape
    pieces: tuple[Piece, ...]


def experts(place: Place, share: Share) -> None:
    """One update for every matrix of a stack; nested ones belong to several parameters of the module."""
    if place.settings.peft_type != "LORA":
        return
    stacks = _stacks_of(place)
    levels = list(_levels(place))
    if not stacks or not levels:
        return
    pairs = []
    for front in levels:
        names = place.pair(share, f"{front}lora_A", f"{front}lora_B")
        if names is None:
            return
        pairs.append(names)
    fitting = [order for order in permutations(stacks, len(pairs)) if _all_fit(place, pairs, order)]
    if not fitting:
        share.problems.append(_misfit(place, pairs, stacks))
        return
    for names, stack in zip(pairs, fitting[0], strict=True):
        _add(place, share, names, stack)


def _levels(place: Place) -> Iterator[str]:
    """What stands before the factors, innermost first."""
    fronts = [
        name[: -len("lora_A.weight")]
        for name in place.part.tensors
        if name.endswith("lora_A.weight")
    ]
    yield from sorted(fronts, key=len, reverse=True)


def _stacks_of(place: Place) -> list[Stacked]:
    """The stacked parameters of the module that are targets, in the order of their definition."""
    module, given = place.module, place.part.module
    owner, _, last = module.rpartition(".")
    if stack := stack_of(place.base, owner, last):  # the parameter is named as if it were a module
        return [stack]
    names = sorted(parameters_of(place.base, module), key=_place_of)
    found = [
        stack_of(place.base, module, name)
        for name in names
        if is_target_parameter(place.settings, f"{given}.{name}")
    ]
    return [stack for stack in found if stack is not None]


def parameters_of(base: Base, module: str) -> list[str]:
    """Stacked parameters of a module, stored as stacks or as experts one by one."""
    stored = [
        parameter
        for parameter, name in base.modules.get(module, {}).items()
        if len(base.shape(name)) == 3
    ]
    known = base.stacks.get(module, {})
    virtual = [
        parameter
        for parameter, ways in STACKED.items()
        if any(all(one in known for one in way) for way in ways) and parameter not in stored
    ]
    return stored + virtual


def stack_of(base: Base, module: str, parameter: str) -> Stacked | None:
    """A stacked parameter by its name; None where the base has no such."""
    name = base.modules.get(module, {}).get(parameter)
    if name is not None:
        shape = base.shape(name)
        return Stacked(parameter, shape, (Piece(name),)) if len(shape) == 3 else None
    known = base.stacks.get(module, {})
    for way in STACKED.get(parameter, ()):
        if all(projection in known for projection in way):
            return _joined(base, parameter, [known[projection] for projection in way])
    return None


def _joined(base: Base, parameter: str, projections: Sequence[dict[int, str]]) -> Stacked:
    pieces, row = [], 0
    for numbers in projections:
        pieces += [Piece(name, expert, row) for expert, name in sorted(numbers.items())]
        row += base.shape(numbers[0])[0]
    columns = base.shape(projections[0][0])[1]
    return Stacked(parameter, (len(projections[0]), row, columns), tuple(pieces))


def _place_of(parameter: str) -> tuple[int, str]:
    known = parameter in _DEFINED
    return (_DEFINED.index(parameter) if known else len(_DEFINED), parameter)


def _all_fit(place: Place, pairs: Sequence[tuple[str, str]], stacks: Sequence[Stacked]) -> bool:
    return all(_ways(place, pair, one) for pair, one in zip(pairs, stacks, strict=True))


def _ways(place: Place, names: tuple[str, str], stack: Stacked) -> list[bool]:
    """Whether the update lies over the stack as it is (False), transposed (True), or could be either."""
    number, rows, columns = stack.shape
    a, b = (place.shape(name) for name in names)
    if len(a) == 3:
        whole = a[0] == b[0] == number and a[1] == b[2]
        given = (b[1], a[2])
    else:
        whole = a[0] % number == 0 and a[0] == b[1]
        given = (b[0], a[1])
    if not whole:
        return []
    return [
        way for way, size in ((False, (rows, columns)), (True, (columns, rows))) if given == size
    ]


def _add(place: Place, share: Share, names: tuple[str, str], stack: Stacked) -> None:
    ways = _ways(place, names, stack)
    swapped = ways[0] if len(ways) == 1 else _by_version(place, share)
    if swapped is None:
        return
    a = place.shape(names[0])
    named = f".{stack.parameter}"
    r = place.rank(share, a[1] if len(a) == 3 else a[0] // stack.shape[0], named)
    factors = {"A": place.tensor(names[0]), "B": place.tensor(names[1])}
    for piece in stack.pieces:
        lies = Stack(stack.shape[0], swapped, piece.expert, piece.row)
        share.terms.append(
            (piece.name, place.term("experts", factors, named, r=r, stack=lies, parameter=True))
        )


def _by_version(place: Place, share: Share) -> bool | None:
    """For square matrices the version of PEFT tells; None, and a problem, where that is not known."""
    if place.base.config.get("model_type") in TRANSPOSED_TYPES:
        return True
    said = place.peft_version or place.settings.get("peft_version")
    version = _version(str(said)) if said else None
    if version is not None and version != (0, 19, 0):
        return version < (0, 19, 0)
    known = f"was saved by PEFT {said}" if said else "does not say which PEFT saved it"
    share.problems.append(
        recipe_problem(
            f"the layout of its experts is open: the matrices are square, and it {known}",
            why="PEFT took (experts, in, out) up to 0.18 and (experts, out, in) from 0.19.1 on",
            do="give the version that it was trained with in lora.peft_version",
            subject=f"{place.adapter.label}: {place.part.module}",
            check="lora",
        )
    )
    return None


def _version(text: str) -> tuple[int, int, int] | None:
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def _misfit(place: Place, pairs: Sequence[tuple[str, str]], stacks: Sequence[Stacked]) -> Problem:
    given = ", ".join(
        f"{a} {list(place.shape(a))} and {b} {list(place.shape(b))}" for a, b in pairs
    )
    wanted = ", ".join(f"{stack.parameter} {list(stack.shape)}" for stack in stacks)
    return place.problem(f"{given} do not fit {wanted}", why=OTHER, do=GIVE)
