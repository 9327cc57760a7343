"""How two outputs differ: per position and per input. numpy only.

An output is a matrix of positions by values. Cosine alone is blind to scale, so the relative residual
`|candidate - reference| / |reference|` stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Output = NDArray[np.float32]  # positions by values
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one input: cosine by position; the others over all its positions. `top1` is the share of positions
    whose largest value is the same one; `kl` in nats, of softmax(reference) from softmax(candidate).
    """

    cosines: tuple[float, ...]
    residual: float
    largest: float
    kl: float
    top1: float

    def as_json(self) -> dict[str, Any]:
        """The figures, with the worst position first."""
        worst = int(np.argmin(self.cosines))
        return {
            "cosine_min": self.cosines[worst],
            "position": worst,
            "cosine_mean": float(np.mean(self.cosines)),
            "residual": self.residual,
            "max_difference": self.largest,
            "kl": self.kl,
            "top1": self.top1,
        }


def differ(reference: Output, candidate: Output) -> Difference:
    """Compare two outputs of one shape. Values that are not finite in the candidate count as opposite."""
    ours, theirs = reference.astype(np.float64), candidate.astype(np.float64)
    if not np.isfinite(theirs).all():
        return Difference((-1.0,) * len(ours), math.inf, math.inf, math.inf, 0.0)
    gap = theirs - ours
    return Difference(
        tuple(float(one) for one in _cosines(ours, theirs)),
        _ratio(float(np.linalg.norm(gap)), float(np.linalg.norm(ours))),
        float(np.abs(gap).max(initial=0.0)),
        float(np.mean(_divergence(ours, theirs))) if len(ours) else 0.0,
        float(np.mean(ours.argmax(axis=1) == theirs.argmax(axis=1))) if len(ours) else 1.0,
    )


def by_position(differences: Sequence[Difference]) -> list[float]:
    """The least cosine at each position over all inputs that reach it."""
    longest = max((len(one.cosines) for one in differences), default=0)
    return [
        min(one.cosines[place] for one in differences if place < len(one.cosines))
        for place in range(longest)
    ]


def mean_loss(logits: Sequence[Output], ids: Sequence[Sequence[int]]) -> float:
    """Mean cross entropy, in nats, of each next token."""
    losses = [
        -_log_softmax(one[:-1].astype(np.float64))[np.arange(len(known) - 1), list(known[1:])]
        for one, known in zip(logits, ids, strict=True)
        if len(known) > 1
    ]
    return float(np.mean(np.concatenate(losses))) if losses else math.nan


def effect_error(
    base: Sequence[Output], reference: Sequence[Output], merged: Sequence[Output]
) -> tuple[float, float]:
    """`|merged - reference| / |reference - base|` over all inputs, and `|reference - base| / |base|`."""
    missed = _norm(one - other for one, other in zip(merged, reference, strict=True))
    effect = _norm(one - other for one, other in zip(reference, base, strict=True))
    return _ratio(missed, effect), _ratio(effect, _norm(iter(base)))


def relative(reference: Sequence[Output], candidate: Sequence[Output]) -> list[float]:
    """The relative residual of each pair."""
    return [
        _ratio(_norm(iter([one - other])), _norm(iter([one])))
        for one, other in zip(reference, candidate, strict=True)
    ]


def _norm(parts: Any) -> float:
    return math.sqrt(sum(float(np.sum(np.square(part, dtype=np.float64))) for part in parts))


def _ratio(part: float, whole: float) -> float:
    return 0.0 if part == 0 else part / whole if whole else math.inf


def _cosines(ours: Doubles, theirs: Doubles) -> Doubles:
    """1 where both are zero, 0 where one is."""
    norms = np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1)
    product = norms[0] * norms[1]
    both = (norms[0] == 0) & (norms[1] == 0)
    cosines: Doubles = np.where(
        product > 0,
        np.einsum("ij,ij->i", ours, theirs) / np.where(product > 0, product, 1),
        both.astype(np.float64),
    )
    return np.clip(cosines, -1, 1)


def _divergence(ours: Doubles, theirs: Doubles) -> Doubles:
    left, right = _log_softmax(ours), _log_softmax(theirs)
    divergence: Doubles = np.sum(np.exp(left) * (left - right), axis=1)
    return np.maximum(divergence, 0)


def _log_softmax(values: Doubles) -> Doubles:
    shifted = values - values.max(axis=1, keepdims=True)
    logs: Doubles = shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return logs
