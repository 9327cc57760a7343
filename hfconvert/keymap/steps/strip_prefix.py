"""`strip_prefix: [prefixes]`: names without what a wrapper or an outer module put before them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from hfconvert.errors import Problem, UserError, raise_any, recipe_problem
from hfconvert.findings import Finding, info
from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.fold import listed
from hfconvert.keymap.move import moved
from hfconvert.keymap.prefixes import Prefixes, Stripped, Taken
from hfconvert.keymap.rules import unmatched
from hfconvert.tensors.checkpoint import Checkpoint

_HINT = "remove it from the list, or look at the names with `hfconvert inspect`"


def strip_prefix(prefixes: Sequence[str], where: Where) -> StepFunction:
    """Take each prefix off once, from the front, in whatever order they stand; the longest first.

    The prefixes of `WRAPPERS`, when listed, go wherever a dotted part begins. UserError (exit 2) where a
    prefix is empty, none is found, one is at the front of some names and missing from others, or two names
    collide.
    """
    raise_any(_empty(where(number)) for number, prefix in enumerate(prefixes) if not prefix)
    wanted = Prefixes.of(prefixes)
    positions = {prefix: where(number) for number, prefix in enumerate(prefixes)}

    def step(checkpoint: Checkpoint) -> Applied:
        stripped = {name: wanted.take_off(name) for name in checkpoint}
        kinds = Counter(one.taken for one in stripped.values())
        counts = Counter[str]()
        for taken, count in kinds.items():
            counts.update(dict.fromkeys(taken.prefixes, count))
        findings = unmatched(positions, set(counts), where(), _HINT)
        mixed = list(_mixed(stripped, kinds, positions))
        result = _renamed(checkpoint, stripped, kinds, mixed, where())
        return Applied(result, (*findings, *_counted(counts, positions)))

    return step


def _renamed(
    checkpoint: Checkpoint,
    stripped: Mapping[str, Stripped],
    kinds: Mapping[Taken, int],
    problems: Sequence[Problem],
    subject: str,
) -> Checkpoint:
    """The checkpoint with the new names. UserError with the problems and those of the names themselves."""
    said = {taken: f"strip_prefix {', '.join(taken.prefixes)}" for taken in kinds}
    changed = {old: one for old, one in stripped.items() if one.name != old}
    names = {old: one.name for old, one in changed.items()}
    labels = {old: said[one.taken] for old, one in changed.items()}
    try:
        result = moved(checkpoint, names, labels, subject)
    except UserError as error:
        raise UserError(*problems, *error.problems) from None
    raise_any(problems)
    return result


def _mixed(
    stripped: Mapping[str, Stripped], kinds: Mapping[Taken, int], positions: Mapping[str, str]
) -> Iterator[Problem]:
    """Prefixes that only some names carry. A wrapper may stand inside some names only."""
    for prefix, subject in positions.items():
        front = {taken for taken in kinds if prefix in taken.front}
        without = {taken for taken in kinds if prefix not in taken.prefixes}
        if front and without:
            carriers = [name for name, one in stripped.items() if one.taken in front]
            others = [name for name, one in stripped.items() if one.taken in without]
            yield _some(prefix, carriers, others, subject)


def _some(prefix: str, carriers: Sequence[str], others: Sequence[str], subject: str) -> Problem:
    return recipe_problem(
        f"`{prefix}` is at the front of {len(carriers)} names, and {len(others)} do not have it: "
        f"{listed(carriers, 4)} against {listed(others, 4)}",
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


def _counted(counts: Mapping[str, int], positions: Mapping[str, str]) -> Iterator[Finding]:
    for prefix, subject in positions.items():
        if prefix in counts:
            yield info("names", subject, f"`{prefix}` was taken off {counts[prefix]} names")
