"""After publishing: what stands on the Hub is held against what was sent, file by file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hfconvert.errors import Problem
from hfconvert.hub.about import hub_problem
from hfconvert.hub.content import git_id
from hfconvert.hub.source import HubFile, Snapshot, pin
from hfconvert.hub.target import Target
from hfconvert.hub.uploads import Proven, Sent


def differences(
    target: Target, revision: str, base: Snapshot, sent: Iterable[Sent], removed: Iterable[str]
) -> list[str]:
    """How a revision differs from its base with these files put and those removed; empty where not."""
    found = pin(target.client, target.repo, revision)
    gone, new = set(removed), {one.file.path: one for one in sent}
    return [
        *_wrong(found, new),
        *(f"{path} is still there" for path in sorted(gone & found.files.keys())),
        *_changed(base, found, {*new, *gone}),
    ]


def holds(snapshot: Snapshot, file: Proven) -> bool:
    """Whether a snapshot has this very file at its path."""
    record = snapshot.files.get(file.path)
    return (
        record is not None
        and record.size == file.size
        and record.content.digest == _digest(file, record)
    )


def arrived_otherwise(target: Target, revision: str, faults: list[str]) -> Problem:
    """The problem (exit 4) that what stands on the Hub is not what was sent."""
    return hub_problem(
        target.client.about(target.repo, revision=revision),
        f"what the Hub holds is not what was sent: {'; '.join(faults[:5])}",
        why="the Hub or something on the way changed it, or somebody else committed at this moment",
        do="look at it on the Hub, close or revert it, and run again",
    )


def _wrong(found: Snapshot, new: dict[str, Sent]) -> Iterator[str]:
    for path, one in new.items():
        record = found.files.get(path)
        if record is None:
            yield f"{path} is missing"
        elif record.size != one.file.size:
            yield f"{path} has {record.size} bytes, {one.file.size} were sent"
        elif record.content.digest != _digest(one.file, record):
            yield f"{path} has another content"


def _digest(file: Proven, record: HubFile) -> str:
    if record.content.kind == "sha256":
        return file.sha256
    content = file.content
    return git_id(content if isinstance(content, bytes) else content.read_bytes())


def _changed(base: Snapshot, found: Snapshot, ours: set[str]) -> Iterator[str]:
    for path in sorted({*base.files, *found.files} - ours):
        before, after = base.files.get(path), found.files.get(path)
        if before != after:
            yield f"{path} was changed, too"
