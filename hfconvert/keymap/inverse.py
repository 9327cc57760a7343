"""The key map that undoes another, where there is one.

A step is inverted from its text alone, and then tried on the names, shapes and origins of a checkpoint: names
that were there before and look like results of the step, or parts of different sizes, have no inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hfconvert.errors import Problem, UserError, raise_any, recipe_problem
from hfconvert.keymap.applied import Where
from hfconvert.keymap.apply import apply
from hfconvert.keymap.elements import leaf_parts
from hfconvert.keymap.fold import listed
from hfconvert.keymap.prefixes import WRAPPERS
from hfconvert.keymap.tokens import Token, tokens_of
from hfconvert.recipe.steps import STEPS, StepModel
from hfconvert.tensors.checkpoint import Checkpoint


class _NoneError(Exception):
    """A step without an inverse, and why."""


def inverse(
    key_map: Sequence[StepModel], checkpoint: Checkpoint, where: Where
) -> tuple[StepModel, ...]:
    """The steps that lead back from what `key_map` makes of the checkpoint, in their order.

    UserError (exit 2) with all the steps that have no inverse, or where those that were derived do not give
    every tensor back under its name. Reads no values.
    """
    steps, problems = [], []
    for number, step in enumerate(key_map):
        try:
            steps.append(_inverse_step(step))
        except _NoneError as error:
            problems.append(_no_inverse(step, str(error), where("key_map", number)))
    raise_any(problems)
    back = tuple(reversed(steps))
    raise_any(_astray(checkpoint, key_map, back, where))
    return back


def _inverse_step(step: StepModel) -> StepModel:
    if step.name not in _INVERSES:
        raise _NoneError(_WHY.get(step.name, "it is not known how to undo it"))
    name, value = _INVERSES[step.name](step.model_dump(by_alias=True)[step.name])
    return STEPS[name].model_validate({name: value})


def _astray(
    checkpoint: Checkpoint, key_map: Sequence[StepModel], back: Sequence[StepModel], where: Where
) -> Iterator[Problem]:
    """Tensors that do not come back as they were."""
    after = apply(checkpoint, key_map, where).checkpoint
    try:
        again = apply(after, back, where).checkpoint
    except UserError as error:
        yield _no_way_back(str(error.problems[0].what), where("key_map"))
        return
    wrong = [
        name
        for name in {**checkpoint.entries, **again.entries}
        if _origin(checkpoint, name) != _origin(again, name)
    ]
    if wrong:
        yield _no_way_back(f"{listed(wrong)} would not come back as before", where("key_map"))


def _origin(checkpoint: Checkpoint, name: str) -> object:
    """What a tensor is and which tensors of the source it is made of; None where there is none."""
    entry = checkpoint.entries.get(name)
    if entry is None:
        return None
    return entry.tensor.spec, {id(part.leaf) for part in leaf_parts(entry.tensor)}


def _no_inverse(step: StepModel, why: str, subject: str) -> Problem:
    return recipe_problem(
        f"the step `{step.name}` has no inverse: {why}",
        why="what it does cannot be read off its result",
        do="write the way back by hand, or leave the step out",
        subject=subject,
        check="names",
    )


def _no_way_back(what: str, subject: str) -> Problem:
    return recipe_problem(
        f"the key map has no inverse on these names: {what}",
        why="some names look like results of a step and are not, or parts differ in size",
        do="write the way back by hand, with patterns that tell them apart",
        subject=subject,
        check="names",
    )


def _rename(pairs: Mapping[str, str]) -> tuple[str, Any]:
    back = {new: old for old, new in pairs.items()}
    if len(back) < len(pairs):
        raise _NoneError("several patterns give one name")
    for old, new in pairs.items():
        _check_same_parts(old, new)
    return "rename", back


def _strip_prefix(prefixes: Sequence[str]) -> tuple[str, Any]:
    if len(prefixes) > 1 or prefixes[0] in WRAPPERS:
        raise _NoneError("which prefix stood before which name, or how often, is not recorded")
    return "add_prefix", prefixes[0]


def _add_prefix(prefix: str) -> tuple[str, Any]:
    """As a rename: `strip_prefix` would take a wrapper's prefix off more than once."""
    if any(letter in prefix for letter in "{}*"):
        raise _NoneError("the prefix holds characters that patterns read otherwise")
    return "rename", {f"{prefix}*": "*"}


def _exchanged(name: str) -> Callable[[Mapping[str, Any]], tuple[str, Any]]:
    """The step of that name with `from` and `into` exchanged; a number stands on one side of a stack only."""
    beside = 1 if name in ("stack", "unstack") else 0

    def exchange(options: Mapping[str, Any]) -> tuple[str, Any]:
        for one in _texts(options["from"]):
            for other in _texts(options["into"]):
                _check_same_parts(one, other, beside=beside)
        return name, {**options, "from": options["into"], "into": options["from"]}

    return exchange


def _permute_rope(options: Mapping[str, Any]) -> tuple[str, Any]:
    other = {"half": "interleaved", "interleaved": "half"}
    return "permute_rope", {**options, "to": other[options["to"]]}


def _same(name: str) -> Callable[[Any], tuple[str, Any]]:
    return lambda value: (name, value)


_INVERSES: Mapping[str, Callable[[Any], tuple[str, Any]]] = {
    "rename": _rename,
    "strip_prefix": _strip_prefix,
    "add_prefix": _add_prefix,
    "split": _exchanged("concat"),
    "concat": _exchanged("split"),
    "stack": _exchanged("unstack"),
    "unstack": _exchanged("stack"),
    "qkv": _exchanged("qkv"),
    "transpose": _same("transpose"),
    "permute_rope": _permute_rope,
    "tie": _same("untie"),
    "untie": _same("tie"),
}
_WHY = {
    "drop": "the tensors are gone",
    "resize": "the rows are gone",
    "join": "where the ranks were cut is not recorded",
    "family": "a family is inverted step by step",
}


def _check_same_parts(left: str, right: str, *, beside: int = 0) -> None:
    """Both sides have to hold the same captures and stars; one may have `beside` captures more."""
    ours, theirs = _captures(tokens_of(left)), _captures(tokens_of(right))
    stars = [sum(token.kind == "star" for token in tokens_of(text)) for text in (left, right)]
    if len(ours ^ theirs) != beside or stars[0] != stars[1]:
        raise _NoneError(f"`{right}` does not repeat all that `{left}` leaves open")


def _captures(tokens: Iterable[Token]) -> set[str]:
    return {text for kind, text in tokens if kind == "capture"}


def _texts(value: str | Sequence[str]) -> Sequence[str]:
    return (value,) if isinstance(value, str) else value
