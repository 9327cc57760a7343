"""A place that is either a path or a repository: `adapter`, `assets_from`, `inspect WHAT` and the like."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, PlainSerializer, PlainValidator, ValidationInfo

from hfconvert.errors import UserError, recipe_problem
from hfconvert.findings import Finding
from hfconvert.recipe.faults import RefusedError, shown
from hfconvert.recipe.model import Shape, Text, holds_placeholder, recipe_folder
from hfconvert.recipe.scalars import as_written
from hfconvert.tensors.source import SourceFile

# Source of the rules: `validate_repo_id` of huggingface_hub.
_REPO = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)?\Z")
_MOST_LETTERS = 96


@dataclass(frozen=True, slots=True)
class Location:
    """`path`, or `repo` with the revision written behind `@`, if any; exactly one of the two.

    Before `substitute` has filled in a `${...}`, `repo` is the text as it was written. Once a repository was
    looked at, `revision` is its commit, `here` the folder that stands for it on this disk, and `remote` holds
    those of its files that are read by ranges; `findings` is what was noticed then.
    """

    path: Path | None = None
    repo: str | None = None
    revision: str | None = None
    here: Path | None = field(default=None, compare=False)
    remote: Mapping[str, SourceFile] = field(default_factory=dict, compare=False)
    findings: tuple[Finding, ...] = field(default=(), compare=False)

    @property
    def local(self) -> Path | None:
        """Where it lies on this disk; None for a repository that nobody looked at yet."""
        return self.here or self.path

    def __str__(self) -> str:
        if self.path is not None:
            return str(self.path)
        return f"{self.repo}@{self.revision}" if self.revision else str(self.repo)


def parse_location(text: str, *, base: Path | None = None, subject: str = "") -> Location:
    """Read a path or `org/name[@revision]`.

    A path when it begins with `.` or `/` or exists (relative ones from `base`, default the working
    directory), else a repository. Raises UserError (exit 2) about `subject` when it is neither.
    """
    try:
        return _parse(text, base or Path())
    except RefusedError as refused:
        raise UserError(
            recipe_problem(refused.what, why=refused.why, do=refused.do, subject=subject)
        ) from None


def check_repo(text: str) -> str:
    """The id of a repository as the Hub accepts it; raises RefusedError."""
    if "://" in text:
        raise RefusedError(f"{shown(text)} is a URL", do="write org/name")
    if "@" in text:
        raise RefusedError(f"{shown(text)} holds a revision", do="write it under `revision`")
    name = text.rsplit("/", 1)[-1]
    wrong_ends = any(part[:1] in "-." or part[-1:] in "-." for part in text.split("/"))
    if not _REPO.match(text) or wrong_ends or "--" in text or ".." in text or name.endswith(".git"):
        raise RefusedError(
            f"{shown(text)} is not the id of a repository",
            why="an id is org/name, of letters, digits, `-`, `_` and `.`",
            do="write org/name as the Hub shows it",
        )
    if len(text) > _MOST_LETTERS:
        raise RefusedError(
            f"{shown(text)} is longer than {_MOST_LETTERS} letters", do="mend the id"
        )
    return text


def _parse(text: str, base: Path) -> Location:
    if not text:
        raise RefusedError(
            "neither a path nor a repository is named", do="write a path or org/name"
        )
    if "\0" in text:
        raise RefusedError("a path holds a NUL character", do="remove it")
    if text[0] in "./" or _exists(base / text):
        return Location(path=base / text)
    repo, at, revision = text.partition("@")
    if repo.count("/") != 1 or (at and not revision):
        raise RefusedError(
            f"{shown(text)} is neither an existing path nor org/name[@revision]",
            why="a path is misspelt, or `./` is missing in front of it",
            do="write ./path, or org/name[@revision]",
        )
    return Location(repo=check_repo(repo), revision=revision or None)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long, a folder that may not be read
        return False


def _validate(value: object, info: ValidationInfo) -> Location:
    text = as_written(value)
    if not isinstance(text, str):
        raise RefusedError(
            f"must be a path or org/name[@revision], not {shown(value)}",
            do="write a path or org/name[@revision]",
        )
    return Location(repo=text) if holds_placeholder(text) else _parse(text, recipe_folder(info))


def _repo(text: str) -> str:
    return text if holds_placeholder(text) else check_repo(text)


LocationText = Annotated[
    Location,
    PlainValidator(_validate),
    PlainSerializer(str),
    Shape({"type": "string", "minLength": 1}),
]
"""A field that is written as a path or `org/name[@revision]`."""

Repo = Annotated[Text, AfterValidator(_repo), Shape({"type": "string", "minLength": 1})]
"""A field that is the id of a repository."""
