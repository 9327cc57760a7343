"""Everything that a Hub holds, and the words in which tests set it up."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hub.loopback.accounts import OrgRole, Token, TokenRole, User
from tests.hub.loopback.blobs import Blob, FileBlob, MemoryBlob
from tests.hub.loopback.faults import Faults
from tests.hub.loopback.limits import Limits
from tests.hub.loopback.log import Log
from tests.hub.loopback.messages import RefusedError
from tests.hub.loopback.repositories import MAIN, Commit, File, Repo
from tests.hub.loopback.xet_store import XetStore

Content = bytes | str | Path | Blob
LARGE = 10 * 1024 * 1024  # regular files above this are refused
# Endings that a new repository's .gitattributes gives to LFS.
LFS_ENDINGS = (
    *(".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".onnx", ".h5", ".msgpack", ".gguf"),
    *(".npy", ".npz", ".pickle", ".pkl", ".model", ".zip", ".tar", ".gz", ".parquet"),
)


@dataclass(eq=False, kw_only=True)
class Hub:
    """A Hub: accounts, repositories, stored objects. Attributes may be changed at any time.

    `endpoint` is where it answers, `cdn` the other origin, from which the bytes of large files come.
    """

    folder: Path
    xet_store: XetStore
    endpoint: str = ""
    cdn: str = ""
    users: dict[str, User] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    repos: dict[str, Repo] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    objects: dict[str, Blob] = field(default_factory=dict)
    parts: dict[tuple[str, int], bytes] = field(default_factory=dict)
    publishers: dict[str, str] = field(default_factory=dict)  # the identity trusted, by repository
    storage_limits: dict[str, int] = field(default_factory=dict)  # bytes, by namespace
    page_size: int = 1000
    part_size: int = 16 * 1024 * 1024  # larger objects are uploaded in parts
    faults: Faults = field(default_factory=Faults)
    limits: Limits = field(default_factory=Limits)
    log: Log = field(default_factory=Log)
    crashes: list[BaseException] = field(default_factory=list)  # errors of the Hub itself
    lock: threading.RLock = field(default_factory=threading.RLock)

    def user(self, name: str, **orgs: OrgRole) -> User:
        """An account, with its roles in organisations; made, or made anew."""
        self.users[name] = User(name, orgs)
        return self.users[name]

    def token(
        self,
        user: str = "owner",
        role: TokenRole = "write",
        *,
        scoped: Mapping[str, tuple[str, ...]] | None = None,
        everywhere: tuple[str, ...] = (),
    ) -> str:
        """A new token of an account, which is made if need be; `scoped`, `everywhere`: for fineGrained."""
        account = self.users.get(user) or self.user(user)
        text = f"hf_loopback{len(self.tokens):024d}"
        self.tokens[text] = Token(text, account, role, scoped or {}, everywhere)
        return text

    def repo(self, name: str, files: Mapping[str, Content] | None = None, **settings: Any) -> Repo:
        """A new repository, with these files in one commit. Settings are attributes of `Repo`."""
        repo = self.repos[name] = Repo(id=name, **settings)
        if files:
            self.push(name, files)
        return repo

    def push(
        self,
        name: str,
        files: Mapping[str, Content | None],
        *,
        ref: str = MAIN,
        title: str = "Upload",
        xet: bool = False,
    ) -> Commit:
        """Commit files to a repository; None removes one. `xet`: large ones lie in the Xet store too."""
        changes = {
            path: None if content is None else self._file(path, content, xet)
            for path, content in files.items()
        }
        with self.lock:
            return self.repos[name].commit(changes, ref=ref, title=title)

    def store(self, blob: Blob) -> Blob:
        """Keep an object under its sha256."""
        return self.objects.setdefault(blob.sha256, blob)

    def object(self, sha256: str, path: str) -> File:
        """The large file of that sha256. Refused (400) where nobody uploaded it."""
        blob = self.objects.get(sha256)
        found = self.xet_store.find(sha256)
        if blob is None and found is None:
            message = "LFS pointer pointed to a file that does not exist. Offending file"
            raise RefusedError(400, f"{message}: - {path}")
        if blob is None and found is not None:
            blob = self.store(found)
        assert blob is not None
        return File(blob, lfs=True, xet=found.hash if found else None)

    def check_storage(self, namespace: str, extra: int) -> None:
        """Refused (403) where so many bytes more are over the limit of the namespace."""
        used = sum(repo.used_storage for repo in self.repos.values() if repo.namespace == namespace)
        limit = self.storage_limits.get(namespace)
        if limit is not None and used + extra > limit:
            wish = "please upgrade your plan to increase your private storage limit"
            raise RefusedError(403, f"Private repository storage limit reached, {wish}.")

    def _file(self, path: str, content: Content, xet: bool) -> File:
        blob = _blob(content)
        if not is_large(path, blob.size, blob.read(0, 512)):
            return File(blob, lfs=False)
        found = self.xet_store.add(blob.read(0, blob.size)) if xet else None
        return File(self.store(blob), lfs=True, xet=found.hash if found else None)


def is_large(path: str, size: int, sample: bytes) -> bool:
    """Whether a file is stored with LFS: by its ending, its size, or because it is not text."""
    return size > 0 and (path.endswith(LFS_ENDINGS) or size > LARGE or b"\0" in sample)


def _blob(content: Content) -> Blob:
    match content:
        case bytes():
            return MemoryBlob(content)
        case str():
            return MemoryBlob(content.encode())
        case Path():
            return FileBlob(content)
        case _:
            return content
