"""A folder of a snapshot, as readers look at a folder: its names, and each file whole or by ranges."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from hfconvert.hub.ranges import RemoteFile
from hfconvert.hub.source import HubFile, Snapshot, fetch, fetch_all


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """The files below `subfolder` (default: the root) of a snapshot, by their paths from there.

    `spool` is where bytes that are read by ranges are kept, default the system's folder for temporary files.
    """

    snapshot: Snapshot
    subfolder: str | None = None
    spool: Path | None = None
    _opened: dict[str, RemoteFile] = field(default_factory=dict, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def __str__(self) -> str:
        inner = f"/{self.subfolder}" if self.subfolder else ""
        return f"{self.snapshot.about.subject}{inner}"

    def names(self) -> list[str]:
        """Names of the files that lie directly in the folder, sorted."""
        return sorted(name for name in self.snapshot.below(self.subfolder) if "/" not in name)

    def record(self, name: str) -> HubFile:
        """Size and identity of a file. UserError (exit 4) where there is none of that name."""
        return self.snapshot.file(self._path(name))

    def open(self, name: str) -> RemoteFile:
        """The file as a byte source. The same one each time: what it keeps is not fetched twice."""
        with self._lock:
            if name not in self._opened:
                path = self._path(name)
                self._opened[name] = RemoteFile(self.snapshot, path, folder=self.spool)
            return self._opened[name]

    def fetch(self, name: str) -> Path:
        """The whole file on local disk, verified; see `source.fetch`."""
        return fetch(self.snapshot, self._path(name))

    def fetch_all(self, names: Iterable[str]) -> Path:
        """Whole files on local disk, verified; the local folder that stands for this one."""
        root = fetch_all(self.snapshot, [self._path(name) for name in names])
        return root / (self.subfolder or "")

    def _path(self, name: str) -> str:
        return str(PurePosixPath(self.subfolder or "", name))
