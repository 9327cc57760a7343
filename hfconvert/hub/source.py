"""A repository pinned to one commit: its files as the Hub records them, and whole files, verified."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache
from huggingface_hub.hf_api import RepoFile

from hfconvert.errors import Problem, UserError, raise_any
from hfconvert.hub.about import About, hub_problem
from hfconvert.hub.client import Client
from hfconvert.hub.content import Content, matches
from hfconvert.hub.failures import malformed

_AT_ONCE = 8  # downloads of small files; a large one has several connections to itself
_SMALL = 16 * 1024 * 1024  # bytes
_LARGEST = 1 << 60  # bytes that a file could have
_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGESTS = {"sha256": re.compile(r"[0-9a-f]{64}"), "git": re.compile(r"[0-9a-f]{40}")}


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as the Hub records it: its path from the root, its size in bytes, and what identifies it."""

    path: str
    size: int
    content: Content

    @property
    def identity(self) -> str:
        """The content identity: `sha256:...` of a large file, `git:...` (the blob id) of a small one."""
        return str(self.content)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A repository at one commit. Everything that is read from it is of this commit.

    `revision` is what was asked for, `commit` what it meant then. `facts` holds what else the Hub says of the
    repository (`private`, `gated`, `library_name`, `tags`, `downloads`, ... as attributes of ModelInfo).
    """

    client: Client
    repo: str
    revision: str
    commit: str
    files: Mapping[str, HubFile]
    facts: Any = field(repr=False, compare=False)

    @property
    def about(self) -> About:
        """What calls about it are about, for messages."""
        return self.client.about(self.repo, revision=self.commit)

    def below(self, folder: str | None) -> Mapping[str, HubFile]:
        """The files in a folder and the folders in it, by their paths from there; all for None."""
        start = f"{folder.rstrip('/')}/" if folder else ""
        return {
            path.removeprefix(start): file
            for path, file in self.files.items()
            if path.startswith(start)
        }

    def file(self, path: str) -> HubFile:
        """The record of a file. UserError (exit 4) where the commit has none of that path."""
        if path not in self.files:
            about = self.about.at(path)
            raise UserError(
                hub_problem(
                    about,
                    "the repository has no such file at this commit",
                    why="its name is misspelt, or it was added or removed by another commit",
                    do=f"look at {about.page}/tree/{self.commit}",
                )
            )
        return self.files[path]


def pin(client: Client, repo: str, revision: str | None = None) -> Snapshot:
    """Resolve a revision (default: main) once, and list the files of its commit.

    UserError (exit 4) where the repository or revision cannot be read, or where what answers is no Hub: it
    lists a file outside of the repository, or leaves out what every commit and file has.
    """
    asked = revision or "main"
    about = client.about(repo, revision=asked)
    facts = client.ask(about, lambda: client.api.model_info(repo, revision=asked))
    commit = str(facts.sha)
    if not _COMMIT.fullmatch(commit):  # the name of a folder on this disk, too
        raise UserError(malformed(f"the commit is {commit[:80]!r}", about))
    at_commit = client.about(repo, revision=commit)
    files = client.ask(at_commit, lambda: _listed(client, at_commit))
    raise_any(_outside(at_commit, path) for path in files if not _is_inside(path))
    raise_any(
        malformed(wrong, at_commit.at(file.path))
        for file in files.values()
        if (wrong := _wrong(file))
    )
    return Snapshot(client, repo, asked, commit, files, facts)


def fetch(snapshot: Snapshot, path: str) -> Path:
    """The whole file on local disk, from the cache where it is whole there, else from the Hub.

    Its size and hash are those of the Hub's record: a file of the cache that is truncated or corrupt is
    fetched again, it alone. UserError: exit 4 where it cannot be had, or arrives damaged; 5 where the disk
    is full.
    """
    record = snapshot.file(path)
    found = _download(snapshot, path, again=False)
    if matches(found, record.size, record.content):
        return found
    found = _download(snapshot, path, again=True)
    if matches(found, record.size, record.content):
        return found
    about = snapshot.about.at(path)
    raise UserError(
        hub_problem(
            about,
            "the file arrives damaged, twice: its content is not what the Hub records",
            why="a proxy or a disk changes what passes through it",
            do=f"remove {found} and run again, over another network or with HF_HUB_DISABLE_XET=1",
        )
    )


def fetch_all(snapshot: Snapshot, paths: Iterable[str]) -> Path:
    """Fetch files, a few at once; the folder that holds them as the repository does.

    Files that were fetched earlier may be there too: what belongs to the commit is in `snapshot.files`.
    UserError with all that failed.
    """
    wanted = list(paths)
    small = [path for path in wanted if snapshot.file(path).size <= _SMALL]
    problems: list[Problem] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for found in pool.map(lambda path: _attempt(snapshot, path), small):
            problems += found
    for path in wanted:
        if path not in small:  # one by one on this thread, so that Ctrl-C ends them at once
            problems += _attempt(snapshot, path)
    raise_any(problems)
    return fetch(snapshot, wanted[0]).parents[wanted[0].count("/")] if wanted else Path()


def cached_bytes(snapshot: Snapshot, paths: Iterable[str]) -> int:
    """Bytes of these files that are in the cache already, by their sizes; nothing is asked of the Hub."""
    total = 0
    for path in paths:
        found = try_to_load_from_cache(snapshot.repo, path, revision=snapshot.commit)
        size = snapshot.file(path).size
        if isinstance(found, str) and Path(found).stat().st_size == size:
            total += size
    return total


def _listed(client: Client, about: About) -> dict[str, HubFile]:
    tree = client.api.list_repo_tree(about.repo, revision=about.revision, recursive=True)
    return {str(item.path): _recorded(item) for item in tree if isinstance(item, RepoFile)}


def _wrong(file: HubFile) -> str:
    """What of a record cannot be; empty where it is as the Hub writes it."""
    if any("\ud800" <= letter <= "\udfff" for letter in file.path):
        return f"its name is {file.path!r}"
    if type(file.size) is not int or not 0 <= file.size < _LARGEST:
        return f"its size is {file.size!r}"
    if not _DIGESTS[file.content.kind].fullmatch(str(file.content.digest)):
        return f"its {file.content.kind} hash is {str(file.content.digest)[:80]!r}"
    return ""


def _is_inside(path: str) -> bool:
    """Whether the place stays in the folder that it starts in, as every place in a commit of git does."""
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def _outside(about: About, path: str) -> Problem:
    return hub_problem(
        about,
        f"it lists a file that would lie outside of the repository: {path!r}",
        why="no commit can hold such a name: what answers is broken, or is not the Hub",
        do=f"look at what answers at {about.endpoint}; HF_ENDPOINT names another",
    )


def _recorded(item: RepoFile) -> HubFile:
    if item.lfs is not None:
        return HubFile(item.path, item.lfs.size, Content("sha256", item.lfs.sha256))
    return HubFile(item.path, item.size, Content("git", item.blob_id))


def _download(snapshot: Snapshot, path: str, *, again: bool) -> Path:
    def call() -> str:
        return snapshot.client.api.hf_hub_download(
            snapshot.repo, path, revision=snapshot.commit, force_download=again
        )

    return Path(snapshot.client.ask(snapshot.about.at(path), call))


def _attempt(snapshot: Snapshot, path: str) -> tuple[Problem, ...]:
    try:
        fetch(snapshot, path)
    except UserError as error:
        return error.problems
    return ()
