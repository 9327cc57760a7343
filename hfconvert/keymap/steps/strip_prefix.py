"""`strip_prefix: [prefixes]`: names without what a wrapper or an outer module put before them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hfconvert.errors import Problem, UserError, raise_any, recipe_problem
from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.fold import listed
from hfconvert.keymap.move import moved
from hfconvert.keymap.rules import unmatched
from hfconvert.tensors.checkpoint import Checkpoint

# What torch's DistributedDataParallel and DataParallel, torch.compile, DeepSpeed, torch's FSDP and its
# activation checkpointing put into the names of a state dict, at the front or before any submodule.
WRAPPERS = (
    "module.",
    "_orig_mod.",
    "_forward_module.",
    "_fsdp_wrapped_module.",
    "_checkpoint_wrapped_module.",
)
_HINT = "remove it from the list, or look at the names with `hfconvert inspect`"


class Stripped(NamedTuple):
    """A name without its prefixes: those that stood at its front, and those that stood inside."""

    name: str
    front: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()


def strip_prefix(prefixes: Sequence[str], where: Where) -> StepFunction:
    """Take each prefix off once, from the front, in whatever order they stand; the longest first.

    The prefixes of `WRAPPERS`, when listed, go wherever a dotted part begins. UserError (exit 2) where a
    prefix is empty, none is found, one is at the front of some names and missing from others, or two names
    collide.
    """
    raise_any(_empty(where(number)) for number, prefix in enumerate(prefixes) if not prefix)
    wrappers = [prefix for prefix in WRAPPERS if prefix in prefixes]
    plain = sorted(set(prefixes).difference(wrappers), key=len, reverse=True)
    positions = {prefix: where(number) for number, prefix in enumerate(prefixes)}

    def step(checkpoint: Checkpoint) -> Applied:
        stripped = {name: stripped_name(name, plain, wrappers) for name in checkpoint}
        changed = {name: one for name, one in stripped.items() if one.front or one.inside}
        hits = {prefix for one in changed.values() for prefix in (*one.front, *one.inside)}
        findings = unmatched(positions, hits, where(), _HINT)
        problems = list(_mixed(stripped, positions))
        names = {name: one.name for name, one in changed.items()}
        labels = {name: _label(one) for name, one in changed.items()}
        try:
            result = moved(checkpoint, names, labels, where())
        except UserError as error:
            raise UserError(*problems, *error.problems) from None
        raise_any(problems)
        return Applied(result, findings)

    return step


def stripped_name(name: str, plain: Sequence[str], wrappers: Sequence[str]) -> Stripped:
    """The name without plain prefixes, the longest tried first, and wrappers."""
    left = plain
    front: list[str] = []
    inside: list[str] = []
    while True:
        prefix = next((prefix for prefix in (*left, *wrappers) if name.startswith(prefix)), None)
        if prefix is not None:
            name = name.removeprefix(prefix)
            front.append(prefix)
            left = [other for other in left if other != prefix]
            continue
        found = [wrapper for wrapper in wrappers if f".{wrapper}" in name]
        if not found:
            return Stripped(name, tuple(front), tuple(inside))
        inside += found
        name = re.sub(rf"(?<=\.)(?:{'|'.join(map(re.escape, found))})", "", name)


def _mixed(stripped: Mapping[str, Stripped], positions: Mapping[str, str]) -> Iterator[Problem]:
    """Prefixes that only some names carry. A wrapper may stand inside some names only."""
    for prefix, subject in positions.items():
        others = [
            name
            for name, (_, front, inside) in stripped.items()
            if prefix not in front and prefix not in inside
        ]
        if others:
            carriers = [name for name, (_, front, _) in stripped.items() if prefix in front]
            yield from [_some(prefix, carriers, others, subject)] if carriers else []


def _some(prefix: str, front: Sequence[str], others: Sequence[str], subject: str) -> Problem:
    return recipe_problem(
        f"`{prefix}` is at the front of {len(front)} names, and {len(others)} do not have it: "
        f"{listed(front, 4)} against {listed(others, 4)}",
        why="the others were saved from outside the wrapper, or a submodule has that name",
        do=f'drop the others before this step, or name those meant: rename: {{"{prefix}*": "*"}}',
        subject=subject,
        check="names",
    )


def _empty(subject: str) -> Problem:
    return recipe_problem(
        "the prefix is empty",
        why="every name begins with nothing",
        do="write the prefix with its dot, such as `model.`, or remove it",
        subject=subject,
        check="names",
    )


def _label(one: Stripped) -> str:
    return f"strip_prefix {', '.join(dict.fromkeys((*one.front, *one.inside)))}"
