"""The outputs of a step, from what came of its recipes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hfconvert.ci.jobs import Outcome

MOST_FILES = 500  # of the output `files`: GitHub takes 1 MB of outputs from a job
# From the worst to the best: the status of several recipes is the worst of theirs.
STATUSES = ("failed", "deferred", "skipped", "planned", "converted", "up-to-date", "verified")
NAMES = (
    *("status", "pr-url", "pr-number", "revision", "verified", "min-cosine", "effect-error"),
    *("report", "files"),
)


def outputs_of(outcomes: Sequence[Outcome], report: str) -> dict[str, str]:
    """Every output; empty where there is nothing to say. What several recipes published stands one a line."""
    documents = [one.document for one in outcomes]
    published = [one["publish"] for one in documents if one["publish"]]
    values = (
        worst(outcomes),
        _each_line(one["pr_url"] for one in published),
        _each_line(one["pr_number"] for one in published),
        _each_line(map(_revision, published)),
        _verified([_held(one) for one in documents]),
        _figure(min, documents, "logits", "cosine_min"),
        _figure(max, documents, "effect", "effect_error"),
        report,
        json.dumps([file for one in documents for file in _files(one)][:MOST_FILES]),
    )
    return dict(zip(NAMES, values, strict=True))


def write_report(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the report of the one recipe; of several, `{status, reports}`, each report with its recipe."""
    documents = [one.document for one in outcomes]
    several = {
        "status": worst(outcomes),
        "reports": [{"recipe": one.label, **one.document} for one in outcomes],
    }
    document = documents[0] if len(documents) == 1 else several
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def worst(outcomes: Iterable[Outcome]) -> str:
    """The worst status; `failed` where nothing was begun."""
    return min((one.status for one in outcomes), key=STATUSES.index, default="failed")


def _each_line(values: Iterable[object]) -> str:
    return "\n".join(str(one) for one in values if one)


def _revision(published: Mapping[str, Any]) -> str | None:
    """What `revision=` of a loader takes."""
    number = published["pr_number"]
    return f"refs/pr/{number}" if number else published["commit"]


def _held(document: Mapping[str, Any]) -> bool | None:
    """Whether every check that ran passed; None where the values were not looked at."""
    status = {one["name"]: one["status"] for one in document["checks"]}
    if "fail" in status.values():
        return False
    return True if status.get("tensors") == "pass" or document["status"] == "verified" else None


def _verified(held: Sequence[bool | None]) -> str:
    if False in held:
        return "false"
    return "true" if held and None not in held else ""


def _figure(choose: Any, documents: Iterable[Mapping[str, Any]], check: str, name: str) -> str:
    """The worst of a figure over all recipes."""
    found = [
        one["measured"][name]
        for document in documents
        for one in document["checks"]
        if one["name"] == check and name in one["measured"]
    ]
    return str(choose(found)) if found else ""


def _files(document: Mapping[str, Any]) -> Iterator[str]:
    """Paths of the files that are kept; names where the folder is gone since all was published."""
    folder = document["output"]
    for one in document["outputs"]:
        yield str(Path(folder).absolute() / one["file"]) if folder else one["file"]
