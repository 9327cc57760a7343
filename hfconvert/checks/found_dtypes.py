"""The `dtypes` check of somebody's conversion: which casts lie between, and whether they were meant.

A cast is taken for meant where all the tensors of a kind of module went the same way and `config.json` of the
candidate says the new dtype, or says none. Everything else is a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hfconvert.checks.differences import can_compare
from hfconvert.checks.dtypes import kind_of_module
from hfconvert.checks.result import Check
from hfconvert.findings import Finding, info, warning
from hfconvert.keymap.fold import listed
from hfconvert.tensors.dtype import DType


class Pair(NamedTuple):
    """A tensor of the candidate with its dtype, and the dtype that it has in the source."""

    name: str
    before: DType
    after: DType


def check_found_dtypes(
    pairs: Sequence[Pair], said: str | None, *, planned: bool
) -> tuple[Check, tuple[Finding, ...]]:
    """`said` is torch's name of the dtype in the candidate's configuration.

    `planned` says that a recipe fixes every dtype: then each other one is a fault.
    """
    changed = [pair for pair in pairs if pair.before != pair.after]
    if planned:
        faults = list(_unlike_the_recipe(changed))
    else:
        faults = [*_incomparable(changed), *_mixed(pairs), *_unsaid(changed, said)]
    casts = Counter((pair.before.code, pair.after.code) for pair in changed)
    check = Check(
        "dtypes",
        "fail" if faults else "pass",
        {
            "source": _by_kind((pair.name, pair.before) for pair in pairs),
            "result": _by_kind((pair.name, pair.after) for pair in pairs),
            "cast": sum(casts.values()),
        },
        {},
        "; ".join(faults[:10]),
    )
    errors = [
        Finding(level="error", check="dtypes", subject="", message=fault) for fault in faults[:20]
    ]
    return check, (*errors, *_casts_said(casts, said, faults))


def _unlike_the_recipe(changed: Iterable[Pair]) -> Iterator[str]:
    ways: dict[tuple[str, str], list[str]] = {}
    for pair in changed:
        ways.setdefault((str(pair.before), str(pair.after)), []).append(pair.name)
    for (wanted, found), names in ways.items():
        yield f"the recipe says {wanted}, and {len(names)} tensors are {found}: {listed(names)}"


def _incomparable(changed: Iterable[Pair]) -> Iterator[str]:
    for pair in changed:
        if not can_compare(pair.before, pair.after):
            yield f"{pair.name} is {pair.before} in the source and {pair.after} here"


def _mixed(pairs: Iterable[Pair]) -> Iterator[str]:
    """Within a kind of module, tensors of one dtype became several. One that was kept is no fault."""
    ways: dict[tuple[str, str], dict[str, list[str]]] = {}
    for pair in pairs:
        key = (kind_of_module(pair.name), pair.before.code)
        ways.setdefault(key, {}).setdefault(pair.after.code, []).append(pair.name)
    for (kind, before), targets in ways.items():
        usual = max(targets, key=lambda code: len(targets[code]))
        for after, names in targets.items():
            if after not in (usual, before):
                yield (
                    f"{len(names)} of the {kind} tensors of {before} are {after}, "
                    f"the others {usual}: {listed(names)}"
                )


def _unsaid(changed: Sequence[Pair], said: str | None) -> Iterator[str]:
    targets = {pair.after.torch for pair in changed if can_compare(pair.before, pair.after)}
    if said is not None and targets and said not in targets:
        yield f"config.json says {said}, but tensors were cast to {', '.join(sorted(targets))}"


def _casts_said(
    casts: Mapping[tuple[str, str], int], said: str | None, faults: Sequence[str]
) -> Iterator[Finding]:
    for (before, after), count in casts.items():
        message = (
            f"{count} tensors were cast from {before} to {after}; their values are held to that"
        )
        if said is None and not faults:
            hint = "no config.json says that this was meant"
            yield warning("dtypes", "", message, hint)
        else:
            yield info("dtypes", "", message)


def _by_kind(dtypes: Iterable[tuple[str, DType]]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {}
    for name, dtype in dtypes:
        counts.setdefault(kind_of_module(name), Counter())[dtype.code] += 1
    return {kind: dict(counts[kind]) for kind in sorted(counts)}
