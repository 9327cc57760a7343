"""Where files on local disk came from, when that is a repository on the Hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hfconvert.findings import Finding
from hfconvert.tensors.source import SourceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A repository at a commit. `remote` are its weight files that are read by ranges, by their names.

    `known` gives the content of files without reading them: by path, size and modification time, as the
    Hub records it.
    """

    repo: str
    commit: str
    remote: Mapping[str, SourceFile] = field(default_factory=dict)
    known: Mapping[tuple[str, int, int], str] = field(default_factory=dict)
    download_bytes: int = 0
    findings: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        return f"{self.repo}@{self.commit[:12]}"
