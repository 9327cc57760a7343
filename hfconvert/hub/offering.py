"""From a proven result to an offer: which of its files go where, under which words and which mark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hfconvert.hashing import hash_bytes
from hfconvert.hub.body import body_of, invitation, message_of
from hfconvert.hub.card import CARD, make_card
from hfconvert.hub.marker import Marker
from hfconvert.hub.offer import Offer
from hfconvert.hub.source import Snapshot
from hfconvert.hub.story import Story
from hfconvert.hub.target import Target, stem_of
from hfconvert.hub.title import title_of
from hfconvert.hub.uploads import Proven
from hfconvert.planning.plan import Plan
from hfconvert.report.model import Output


def make_offer(story: Story, folder: Path, extra: Sequence[Proven] = ()) -> Offer:
    """The offer of the result in a folder. `extra` are files that go along and are no part of it."""
    outputs = offered(story)
    target = story.target
    files = [
        Proven(target.place(one.file), one.size, one.sha256, folder / one.file) for one in outputs
    ]
    told = [Output(one.path, one.size, one.sha256) for one in (*files, *extra)]
    return Offer(
        files=(*files, *extra),
        title=title_of(story),
        mark=mark_of(story.plan, target),
        describe=partial(_describe, story, told),
        invite=partial(invitation, story),
        card=None if target.origin is not None else partial(make_card, story),
    )


def offered(story: Story) -> list[Output]:
    """Of a result that goes back to its source, what is new: weights, index, a configuration that changed. To
    another repository go all files; its card is made there."""
    plan = story.plan
    if story.target.origin is None:
        return [one for one in story.report.outputs if one.file != CARD]
    copied = {file.name for file in plan.copies}
    return [one for one in story.report.outputs if one.file not in copied]


def mark_of(plan: Plan, target: Target) -> Marker:
    """The mark of a plan whose digest is known."""
    recipe = json.dumps(plan.canonical, sort_keys=True).encode()
    return Marker(
        digest=plan.digest or "",
        recipe=hash_bytes(recipe)[:16],
        weights=target.place(stem_of(shard.file for shard in plan.shards)),
    )


def _describe(story: Story, files: Sequence[Output], base: Snapshot, removed: Sequence[str]) -> str:
    if story.target.how == "commit":
        return message_of(story, files)
    return body_of(story, files, base, removed)
