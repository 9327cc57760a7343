"""Where a result goes: a repository of the Hub, how it gets there, and what stands there now."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal

from hfconvert.hub.about import About, Act
from hfconvert.hub.account import Account
from hfconvert.hub.client import Client
from hfconvert.hub.source import HubFile, Snapshot, pin

How = Literal["pull_request", "commit"]
MAIN = "main"
_WEIGHTS = re.compile(
    r"\.(bin|safetensors|pt|pth|ckpt|nemo|distcp|msgpack|h5|gguf|model_state)$|\.index\.json$"
    r"|(^|/)config\.json$",
    re.IGNORECASE,
)
_SHARD = re.compile(r"-\d+-of-\d+(?=\.safetensors$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A repository that takes a result.

    `head` is its main branch as it was before the work began, None where the repository is yet to be made,
    `private` then. `origin` is the snapshot that was converted, where that is of this very repository;
    `folder` is where the result goes in it, "" for its root.
    """

    client: Client
    repo: str
    how: How
    account: Account
    head: Snapshot | None = field(repr=False)
    private: bool = True
    origin: Snapshot | None = field(default=None, repr=False)
    folder: str = ""

    @property
    def about(self) -> About:
        """What calls that change it are about."""
        act: Act = "propose" if self.how == "pull_request" else "write"
        return self.client.about(self.repo, act)

    def place(self, file: str) -> str:
        """The path in the repository of a file of the result."""
        return f"{self.folder}/{file}" if self.folder else file

    def look(self) -> Snapshot:
        """Its main branch as it is now. UserError (exit 4) where it cannot be read."""
        return pin(self.client, self.repo, MAIN)


def stem_of(files: Iterable[str]) -> str:
    """What names the weights of a result, whatever the number of their shards: `unet/model.safetensors`."""
    weights = sorted(file for file in files if file.endswith(".safetensors"))
    return _SHARD.sub("", weights[0]) if weights else ""


def superseded(present: Iterable[str], sent: Iterable[str]) -> tuple[str, ...]:
    """Files that have to go with a commit: loaders would read them in place of those that are sent.

    These are safetensors files of the same stem, of another number of shards, and their index.
    """
    new = set(sent)
    stem = stem_of(new)
    if not stem:
        return ()
    path = PurePosixPath(stem)
    name = re.escape(path.name.removesuffix(".safetensors"))
    pattern = re.compile(rf"{name}(-\d+-of-\d+)?\.safetensors(\.index\.json)?")
    return tuple(
        sorted(
            file
            for file in set(present) - new
            if PurePosixPath(file).parent == path.parent
            and pattern.fullmatch(PurePosixPath(file).name)
        )
    )


def moved(
    before: Mapping[str, HubFile], after: Mapping[str, HubFile], folder: str = ""
) -> list[str]:
    """The weights, indexes and configurations in a folder that are others than before, or new, or gone."""
    start = f"{folder}/" if folder else ""
    paths = {path for path in {*before, *after} if path.startswith(start) and _WEIGHTS.search(path)}
    return sorted(
        path for path in paths if _identity(before.get(path)) != _identity(after.get(path))
    )


def _identity(file: HubFile | None) -> str | None:
    return file.identity if file else None
