"""Repositories: immutable commits, the refs that point at them, and what their owner has set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from tests.hub.loopback.blobs import Blob, git_oid, pointer
from tests.hub.loopback.discussions import Discussion
from tests.hub.loopback.messages import RefusedError

MAIN = "refs/heads/main"
FIRST_SECOND = 1_767_225_600  # 2026-01-01; every commit is a second later than the one before


@dataclass(frozen=True)
class File:
    """A file of a commit. `xet` is the hash of its content in the Xet store, where it lies there."""

    blob: Blob
    lfs: bool
    xet: str | None = None

    @cached_property
    def oid(self) -> str:
        """The id that git gives it: of the content, or of the pointer that stands for it."""
        return git_oid(pointer(self.blob) if self.lfs else self.blob.read(0, self.blob.size))

    @property
    def etag(self) -> str:
        """What names the content: sha256 of a large file, git's id of a regular one."""
        return self.blob.sha256 if self.lfs else self.oid


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A snapshot: all the files by path, and where it came from."""

    id: str
    parent: str | None
    title: str
    message: str
    author: str
    second: int
    files: Mapping[str, File]


@dataclass(eq=False, kw_only=True)
class Repo:
    """A model repository. What tests set beforehand are plain attributes."""

    id: str
    private: bool = False
    gated: Literal["auto", "manual", False] = False
    granted: set[str] = field(default_factory=set)  # accounts with access to a gated repository
    disabled: bool = False
    pull_requests: bool = True
    facts: dict[str, Any] = field(default_factory=dict)  # of the info: library_name, downloads, ...
    security: dict[str, str] = field(default_factory=dict)  # scan status by path
    upload_modes: dict[str, str] = field(default_factory=dict)  # what preupload says of a path
    refs: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    discussions: list[Discussion] = field(default_factory=list)

    def __post_init__(self) -> None:
        first = _made(None, "initial commit", "", self.namespace, FIRST_SECOND, {})
        self.commits[first.id] = first
        self.refs[MAIN] = first.id

    @property
    def namespace(self) -> str:
        return self.id.partition("/")[0]

    @property
    def head(self) -> Commit:
        """The newest commit of the main branch."""
        return self.commits[self.refs[MAIN]]

    @property
    def used_storage(self) -> int:
        """Bytes of all the large files that any commit holds."""
        large = (file for commit in self.commits.values() for file in commit.files.values())
        return sum({file.blob.sha256: file.blob.size for file in large if file.lfs}.values())

    def resolve(self, revision: str) -> Commit:
        """The commit that a branch, tag, `refs/...`, `HEAD`, commit id or the start of one means."""
        if revision == "HEAD":
            return self.head
        for ref in (revision, f"refs/heads/{revision}", f"refs/tags/{revision}"):
            if ref in self.refs:
                return self.commits[self.refs[ref]]
        found = [commit for oid, commit in self.commits.items() if oid.startswith(revision)]
        if len(found) == 1 and len(revision) >= 7:
            return found[0]
        raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def history(self, commit: Commit) -> Iterator[Commit]:
        """The commit and what came before it, newest first."""
        yield commit
        while commit.parent is not None:
            commit = self.commits[commit.parent]
            yield commit

    def commit(
        self,
        changes: Mapping[str, File | None],
        *,
        ref: str = MAIN,
        parent: str | None = None,
        title: str = "Upload",
        message: str = "",
        author: str = "",
    ) -> Commit:
        """Add a commit with these files put or (None) removed, and move the ref to it."""
        before = self.commits[parent or self.refs[ref]]
        files = {**before.files, **changes}
        kept = {path: file for path, file in sorted(files.items()) if file is not None}
        second = FIRST_SECOND + len(self.commits)
        made = _made(before.id, title, message, author or self.namespace, second, kept)
        self.commits[made.id] = made
        self.refs[ref] = made.id
        return made

    def discussion(self, num: int) -> Discussion:
        """The discussion or pull request of that number."""
        if not 1 <= num <= len(self.discussions):
            raise RefusedError(404, f"No discussion found matching num #{num}")
        return self.discussions[num - 1]


def _made(
    parent: str | None,
    title: str,
    message: str,
    author: str,
    second: int,
    files: Mapping[str, File],
) -> Commit:
    content = [parent, title, message, author, second, [(p, f.etag) for p, f in files.items()]]
    oid = hashlib.sha1(json.dumps(content).encode(), usedforsecurity=False).hexdigest()
    return Commit(
        id=oid,
        parent=parent,
        title=title,
        message=message,
        author=author,
        second=second,
        files=files,
    )
