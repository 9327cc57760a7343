"""How much a pickle may cost; a hostile file costs no more than this."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for all the pickles of one file together, each far above what real checkpoints need.

    `operations` also counts what a rebuilt value copies; `text` is bytes of strings and numbers held in
    memory; longer binary strings than `held` stay in the source.
    """

    operations: int = 4_000_000
    containers: int = 1_000_000
    text: int = 128 << 20
    number: int = 1024
    held: int = 4096


OVERHEAD = 49  # bytes of a string in Python, beside its characters
DEFAULT = Limits()
