"""The `names` and `tensors` checks of somebody's conversion: every tensor of it against the source's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from hfconvert.checks.correspond import Correspondence
from hfconvert.checks.differences import Comparison, Difference, can_compare, held_against
from hfconvert.checks.kinship import kinship
from hfconvert.checks.result import Check
from hfconvert.findings import Finding, info
from hfconvert.keymap.fold import listed
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.shared import Shared

Tensors = Mapping[str, LazyTensor]
Pair = tuple[str, str]  # the candidate's name, the source's name

WORKERS = 2
SHOWN = 12  # tensors that are described one by one; the others are listed


def check_found_names(
    source: Tensors, candidate: Tensors, found: Correspondence, faults: Iterable[str]
) -> tuple[Check, tuple[Finding, ...]]:
    """Names and shapes; `faults` are those of the files themselves, such as an index of other shards."""
    shapes = [
        f"{theirs} is {list(candidate[theirs].spec.shape)}, in the source "
        f"{list(source[ours].spec.shape)}"
        for theirs, ours in found.pairs.items()
        if candidate[theirs].spec.shape != source[ours].spec.shape
    ]
    said = list(faults)
    if found.missing:
        said.append(f"{len(found.missing)} tensors are missing: {listed(found.missing)}")
    if found.added:
        said.append(
            f"{len(found.added)} tensors were added that the source lacks: {listed(found.added)}"
        )
    said += shapes
    check = Check(
        "names",
        "fail" if said else "pass",
        {
            "tensors": len(candidate),
            "missing": len(found.missing),
            "added": len(found.added),
            "shapes": len(shapes),
        },
        {"tensors": len(candidate), "missing": 0, "added": 0, "shapes": 0},
        "; ".join(said[:10]),
    )
    errors = [_error("names", "", fault) for fault in said[:SHOWN]]
    return check, (*found.findings, *errors)


def check_found_values(
    source: Tensors, candidate: Tensors, pairs: Iterable[Pair], advance: Callable[[int], object]
) -> tuple[Check, tuple[Finding, ...]]:
    """Compare every value of every pair whose shapes and dtypes let them be compared.

    `advance` is told the bytes of the candidate that were compared.
    """
    compared = [pair for pair in pairs if _comparable(source[pair[1]], candidate[pair[0]])]
    tasks = Shared(iter(compared))

    def work() -> dict[Pair, Comparison]:
        found = {}
        for theirs, ours in tasks:
            found[theirs, ours] = held_against(source[ours], candidate[theirs])
            advance(candidate[theirs].spec.nbytes)
        return found

    with ThreadPoolExecutor(WORKERS) as pool:
        parts = [pool.submit(work) for _ in range(WORKERS)]
        held = {pair: one for part in parts for pair, one in part.result().items()}
    found = {pair: one.difference for pair, one in held.items() if one.difference is not None}
    differing = [pair for pair in compared if pair in found]
    overflows = [
        f"{theirs}: {held[theirs, ours].overflow} of {candidate[theirs].spec.elements} values "
        f"overflow {candidate[theirs].spec.dtype}"
        for theirs, ours in compared
        if held[theirs, ours].overflow
    ]
    said = [f"{len(differing)} tensors differ: {listed(one for one, _ in differing)}"]
    check = Check(
        "tensors",
        "fail" if differing or overflows else "pass",
        {
            "tensors": len(compared),
            "values": sum(candidate[theirs].spec.elements for theirs, _ in compared),
            "different": len(differing),
        },
        {"tensors": len(compared), "different": 0},
        "; ".join([*(said if differing else []), *overflows[:10]]),
    )
    errors = [_error("tensors", "", one) for one in overflows[:SHOWN]]
    return check, (*_described(differing, found, source, candidate), *errors)


def _comparable(source: LazyTensor, candidate: LazyTensor) -> bool:
    return source.spec.shape == candidate.spec.shape and can_compare(
        source.spec.dtype, candidate.spec.dtype
    )


def _described(
    differing: Sequence[Pair], found: Mapping[Pair, Difference], source: Tensors, candidate: Tensors
) -> Iterator[Finding]:
    """The tensors that differ: the first of them one by one, with what they may hold instead."""
    kin = dict(kinship(differing, source, candidate))
    for pair in differing[:SHOWN]:
        theirs, ours = pair
        message = str(found[pair])
        if theirs != ours:
            message += f"; it is {ours} in the source"
        yield _error("tensors", theirs, f"{message}; {kin[theirs]}" if theirs in kin else message)
    rest = [theirs for theirs, _ in differing[SHOWN:]]
    if rest:
        yield _error("tensors", "", f"{len(rest)} more tensors differ: {listed(rest)}")
    if kin:
        yield info(
            "tensors", "", f"{len(kin)} of the tensors that differ hold values of the source"
        )


def _error(check: str, subject: str, message: str) -> Finding:
    return Finding(level="error", check=check, subject=subject, message=message)
