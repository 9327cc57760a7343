"""The `dtypes` check: which dtype sits where, by kind of module, and what casts lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from hfconvert.checks.result import Check
from hfconvert.checks.written import Written
from hfconvert.keymap.fold import fold, unfold
from hfconvert.tensors.tally import Loss

_EMBEDDING = re.compile(r"embed|(^|\.)(wte|wpe|shared|lm_head|embed_out)(\.|$)", re.IGNORECASE)
_NORM = re.compile(r"norm|(^|\.)(ln|bn)[_.\d]|(^|\.)ln_f\.", re.IGNORECASE)


def check_dtypes(
    files: Iterable[Written],
    expected: Mapping[str, str],
    before: Mapping[str, str],
    losses: Mapping[str, Loss],
) -> Check:
    """Compare the dtype of every written tensor with `expected`, the recipe's; fail at any overflow.

    `before` is the dtype of every tensor in the source. What is measured is the count of tensors by kind of
    module (embedding, norm, body) and dtype, in source and result.
    """
    written = {name: held.code for one in files for name, held in one.held.items()}
    faults = [
        f"{name}: the recipe says {code}, written is {written.get(name)}"
        for name, code in expected.items()
        if written.get(name) != code
    ]
    faults += _overflows(losses, expected)
    return Check(
        "dtypes",
        "fail" if faults else "pass",
        {
            "source": _by_kind(before),
            "result": _by_kind(written),
            "overflow": sum(loss.overflow for loss in losses.values()),
            "underflow": sum(loss.underflow for loss in losses.values()),
        },
        {"overflow": 0},
        "; ".join(faults),
    )


def kind_of_module(name: str) -> str:
    """`embedding`, `norm` or `body`, from the name of a tensor."""
    if _EMBEDDING.search(name):
        return "embedding"
    return "norm" if _NORM.search(name) else "body"


def _overflows(losses: Mapping[str, Loss], expected: Mapping[str, str]) -> Iterator[str]:
    """Every tensor that lost values to an overflow, folded over layers."""
    by_target: dict[str, list[str]] = {}
    for name, loss in losses.items():
        if loss.overflow:
            by_target.setdefault(expected[name], []).append(name)
    for code, names in by_target.items():
        for line in fold(names):
            lost = [losses[name] for name in unfold([line])]
            count, values = sum(loss.overflow for loss in lost), sum(loss.values for loss in lost)
            yield f"{line}: {count} of {values} values overflow {code}"


def _by_kind(codes: Mapping[str, str]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {}
    for name, code in codes.items():
        counts.setdefault(kind_of_module(name), Counter())[code] += 1
    return {kind: dict(counts[kind]) for kind in sorted(counts)}
