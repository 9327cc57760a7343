"""`resize: {pattern: rows}`: a vocabulary cut to its true size, or lengthened by rows of zeros."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hfconvert.findings import info, warning
from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.counts import filled_in
from hfconvert.keymap.fold import listed
from hfconvert.keymap.rearranged import rearranged
from hfconvert.keymap.rules import parse_all, parse_rules
from hfconvert.keymap.shapes import size_along
from hfconvert.tensors.checkpoint import Checkpoint, Dropped, Entry
from hfconvert.tensors.lazy import LazyTensor, TensorSpec
from hfconvert.tensors.simplify import side_by_side, window
from hfconvert.tensors.zeros import zeros


def resize(sizes: Mapping[str, int | str], where: Where) -> StepFunction:
    """Give what the patterns cover that many rows. The true size is the recipe's: nothing guesses it.

    Rows that are cut off are recorded as dropped by this step; rows that are added are zero, and a warning.
    UserError (exit 2) where nothing matches or a tensor has no dimension.
    """
    patterns = list(sizes)
    rules = parse_rules(patterns, lambda *path: where(*(patterns[part] for part in path)))
    counts = parse_all(lambda text: filled_in(sizes[text], where(text)), patterns)

    def step(checkpoint: Checkpoint) -> Applied:
        makes = [_maker(rows) for rows in counts]
        applied = rearranged(checkpoint, rules, makes, "resize", where())
        return _said(checkpoint, applied, where())

    return step


def _maker(rows: int) -> Callable[[LazyTensor], LazyTensor]:
    def make(tensor: LazyTensor) -> LazyTensor:
        present = size_along(tensor, 0)
        if rows == present:
            return tensor
        if rows < present:
            return window(tensor, 0, 0, rows)
        missing = TensorSpec(tensor.spec.dtype, (rows - present, *tensor.spec.shape[1:]))
        return side_by_side((tensor, zeros(missing)), 0)

    return make


def _said(before: Checkpoint, applied: Applied, subject: str) -> Applied:
    """What the step gave, with the rows that are gone as dropped, and findings on every kind of change."""
    changes: dict[tuple[int, int], list[str]] = {}
    dropped = []
    for name, entry in before.items():
        old, new = entry.tensor, applied.checkpoint[name].tensor
        if old is not new:
            sizes = old.extent[0], new.extent[0]
            changes.setdefault(sizes, []).append(name)
            dropped += _cut_off(entry, *sizes)
    findings = [
        info("names", subject, f"{listed(names)}: rows {rows} to {was} are cut off")
        if rows < was
        else warning(
            "names",
            subject,
            f"{listed(names)}: rows {was} to {rows} are new and zero",
            "they are no trained embeddings; give the rows that the source has to add none",
        )
        for (was, rows), names in changes.items()
    ]
    checkpoint = applied.checkpoint.with_entries(applied.checkpoint.entries, *dropped)
    return Applied(checkpoint, (*applied.findings, *findings))


def _cut_off(entry: Entry, was: int, rows: int) -> list[Dropped]:
    if rows >= was:
        return []
    gone = window(entry.tensor, 0, rows, was)
    return [Dropped(source, f"resize: {rows} of {was} rows", gone) for source in entry.sources]
