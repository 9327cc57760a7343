"""Low-rank updates of stacked experts (`target_parameters`)."""

from __future__ import annotations

from hfconvert.lora.place import Place, Share


def experts(place: Place, share: Share) -> None:
    """One update for every matrix of a stack."""
