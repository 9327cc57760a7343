"""What there is to tell of a result: what became of names, dtypes and values, and where it came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from hfconvert.hub.source import Snapshot
from hfconvert.hub.target import Target
from hfconvert.planning.plan import Plan
from hfconvert.report.markdown import code
from hfconvert.report.model import Report

# Steps of a key map that make other values; all others move them.
_COMPUTING = ("dequantize", "densify", "resize")


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A finished run, where its result goes, and the repository that was converted, None for local files.

    `adapters` are what was merged, as people know them, `linked` is the repository of the adapter. Of an
    adapter that is published itself, `base` is the model that it is for, `linked` the merged model.
    """

    report: Report
    target: Target
    source: Snapshot | None = None
    adapters: tuple[str, ...] = ()
    linked: str = ""
    base: str = ""
    is_adapter: bool = False

    @property
    def plan(self) -> Plan:
        """The plan that was executed."""
        if self.report.plan is None:
            raise ValueError("what has no plan is not published")
        return self.report.plan

    @property
    def source_label(self) -> str:
        """The source in Markdown: a link to the commit, or the names of local files."""
        if self.source is not None:
            return link_to(self.source)
        names = [code(file.name) for file in self.plan.sources]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"local files ({', '.join(names[:3])}{more})"


def is_unchanged(plan: Plan) -> bool:
    """Whether names and dtypes are those of the source; a name that a tie left out counts as there."""
    return not list(changes_of(plan))


def changes_values(plan: Plan) -> bool:
    """Whether a tensor has other values than the source: a cast, a merge, or a step that computes."""
    if plan.merges.adapters:
        return True
    return any(
        plan.before[placed.name] != placed.entry.tensor.spec.dtype.code
        or any(step.startswith(_COMPUTING) for step in placed.entry.steps)
        for shard in plan.shards
        for placed in shard.tensors
    )


def changes_of(plan: Plan) -> Iterator[str]:
    """What is another than in the source, in a few words each."""
    placed = [one for shard in plan.shards for one in shard.tensors]
    casts = Counter(
        (plan.before[one.name], one.entry.tensor.spec.dtype.code)
        for one in placed
        if plan.before[one.name] != one.entry.tensor.spec.dtype.code
    )
    if plan.merges.adapters:
        count = len(plan.merges.adapters)
        yield "an adapter merged" if count == 1 else f"{count} adapters merged"
    for (before, after), _ in casts.most_common(2):
        yield f"cast from {before} to {after}"
    moved = [one for one in placed if _moves(one.entry.steps) or one.entry.sources != (one.name,)]
    if moved and not plan.merges.adapters:
        renamed = any(one.entry.sources != (one.name,) for one in moved)
        yield "other names" if renamed else "another layout"
    dropped = [one for one in plan.dropped if not one.rule.startswith("tie: ")]
    if dropped:
        yield f"without {len(dropped)} tensors"


def link_to(source: Snapshot) -> str:
    """A repository at a commit, as a link."""
    url = f"{source.client.site}/{source.repo}/tree/{source.commit}"
    return f"[{code(source.repo)} at {code(source.commit[:7])}]({url})"


def _moves(steps: tuple[str, ...]) -> bool:
    return any(not step.startswith("dtype ") for step in steps)
