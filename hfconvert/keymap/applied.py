"""What a step is, and what it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hfconvert.findings import Finding
from hfconvert.tensors.checkpoint import Checkpoint, Entry

UNTIE = "untie "  # how the label of an `untie` step begins
Where = Callable[..., str]  # a path in the recipe -> `recipe.yaml:12:7`


@dataclass(frozen=True, slots=True)
class ClaimedTie:
    """Two names that a `tie` step made one, as they stood at that step: their values have to be equal."""

    kept: str
    dropped: str
    kept_entry: Entry
    dropped_entry: Entry
    subject: str


@dataclass(frozen=True, slots=True)
class Applied:
    """The checkpoint after one or more steps, what they had to say, and the ties they claim."""

    checkpoint: Checkpoint
    findings: tuple[Finding, ...] = ()
    ties: tuple[ClaimedTie, ...] = ()


StepFunction = Callable[
    [Checkpoint], Applied
]  # UserError with all its problems where it cannot be done


def is_untied(entry: Entry) -> bool:
    """Whether an `untie` step asked for this name: it is written even where it equals another."""
    return any(step.startswith(UNTIE) for step in entry.steps)
