"""The factor of an update: PEFT's scaling times the weight that the recipe gives the adapter."""

from __future__ import annotations

import math

from hfconvert.lora.terms import Term


def scale_of(term: Term) -> float:
    """`alpha / r`, or `alpha / sqrt(r)` for rank-stabilised LoRA, times the weight."""
    divisor = math.sqrt(term.r) if term.rslora else term.r
    return term.alpha / divisor * term.weight
