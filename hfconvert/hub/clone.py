"""Local files that are, one and all, those of a repository: a clone or a download of it."""

from __future__ import annotations

from collections.abc import Sequence

from hfconvert.hub.content import matches
from hfconvert.hub.source import Snapshot
from hfconvert.tensors.source import SourceFile


def is_clone(files: Sequence[SourceFile], head: Snapshot) -> bool:
    """Whether the repository has every one of these files, byte for byte, under the same name.

    Contents are read only where all the sizes fit.
    """
    records = [head.files.get(file.name) for file in files]
    pairs = list(zip(files, records, strict=True))
    if not files or any(known is None or known.size != file.size for file, known in pairs):
        return False
    return all(known and matches(file.path, known.size, known.content) for file, known in pairs)
