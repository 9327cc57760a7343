"""Findings as annotations of a workflow: at the line that they are about, few enough to be shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hfconvert.ci.commands import Kind, annotation
from hfconvert.ci.jobs import Outcome
from hfconvert.visible import lines

MOST = 10  # of one kind in one step: GitHub shows no more
_KINDS: Mapping[str, Kind] = {"error": "error", "warning": "warning"}
_NOTICES: Mapping[str, Kind] = {"publish": "notice"}  # by check, of level info
_PLACE = re.compile(r"(?P<file>.+):(?P<line>\d+):(?P<col>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One thing that the page of a run shows, with the place in a file of the repository, if any."""

    kind: Kind
    title: str
    message: str
    place: Mapping[str, str]

    def __str__(self) -> str:
        return annotation(self.kind, lines(self.message), **self.place, title=self.title)


def notice(title: str, message: str) -> Annotation:
    """Something that everybody should know, and that is no fault."""
    return Annotation(kind="notice", title=title, message=message, place={})


def annotated(
    outcomes: Iterable[Outcome], recipes: Sequence[str], top: Path
) -> Iterator[Annotation]:
    """Errors and warnings of all recipes, and as notices what is told of publishing.

    `top` is the folder of the repository, where places start.
    """
    files = {str(Path(recipe)) for recipe in recipes}
    for outcome in outcomes:
        for finding in outcome.document["findings"]:
            kind = _KINDS.get(finding["level"]) or _NOTICES.get(finding["check"])
            if kind:
                yield _annotation(kind, finding, files, top)


def shown(found: Iterable[Annotation]) -> Iterator[str]:
    """The commands for annotations: at most ten of a kind, the rest counted."""
    kinds: dict[Kind, list[Annotation]] = {}
    for one in found:
        kinds.setdefault(one.kind, []).append(one)
    for kind, several in kinds.items():
        fits = len(several) <= MOST
        yield from map(str, several if fits else several[: MOST - 1])
        if not fits:
            rest = (
                f"{len(several) - MOST + 1} more of this kind: the log and the report have them all"
            )
            yield annotation(kind, rest, title="hfconvert")


def _annotation(kind: Kind, finding: Mapping[str, str], files: set[str], top: Path) -> Annotation:
    place = _place(finding["subject"], files, top)
    subject = f"{finding['subject']}: " if finding["subject"] and not place else ""
    hint = f"\n{finding['hint']}" if finding["hint"] else ""
    return Annotation(
        kind=kind,
        title=f"hfconvert: {finding['check']}",
        message=f"{subject}{finding['message']}{hint}",
        place=place,
    )


def _place(subject: str, files: set[str], top: Path) -> dict[str, str]:
    """File, line and column of `recipe.yaml:12:7`, where that file is one of the recipes."""
    found = _PLACE.fullmatch(subject)
    if found is None or found["file"] not in files:
        return {}
    path = Path(found["file"]).resolve()
    inside = path.is_relative_to(top.resolve())
    file = str(path.relative_to(top.resolve())) if inside else str(path)
    return {"file": file, "line": found["line"], "col": found["col"]}
