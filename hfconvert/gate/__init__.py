"""The team rule as a required check: weights are safetensors, and proved equal to pickles beside them."""

from __future__ import annotations

from hfconvert.gate.judge import check

__all__ = ["check"]
