"""The part of the `names` check that holds ties: what was left out comes back from what is stored.

A loader restores a dropped name from the name that was kept. So the kept name has to be stored with the
values that the source has under the dropped one, and the configuration must not call the two untied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from hfconvert.checks.disk import DiskFile
from hfconvert.checks.first import first_difference
from hfconvert.checks.written import Written
from hfconvert.tensors.header import HeaderEntry
from hfconvert.tensors.lazy import LazyTensor

_EMBEDDING = re.compile(r"embed(?!_out)|(^|\.)(wte|shared)\.")


class Restored(NamedTuple):
    """A tie: the name that is stored, the name that a loader restores, what the source holds under that.

    `tensor` is None where values are not to be compared.
    """

    kept: str
    dropped: str
    tensor: LazyTensor | None


class _Stored(NamedTuple):
    """A tensor of a written file, which lies at `path`, or on this disk no more."""

    file: str
    path: Path | None
    entry: HeaderEntry


def tie_faults(
    ties: Iterable[Restored], files: Mapping[str, Written], config: Path | None
) -> tuple[str, ...]:
    """Why a reload would not restore what was left out; empty where it would.

    Values are compared in files that still lie on this disk.
    """
    known = tuple(ties)
    stored = _stored(files) if known else {}
    untied = config is not None and _says_untied(config)
    return tuple(fault for tie in known for fault in _faults(tie, stored, untied=untied))


def _faults(tie: Restored, stored: Mapping[str, _Stored], *, untied: bool) -> Iterator[str]:
    if tie.kept not in stored:
        yield f"{tie.dropped} was left out for {tie.kept}, which is not stored"
        return
    if tie.dropped in stored:
        yield f"{tie.dropped} is stored though it was to be left out for {tie.kept}"
    if untied and _EMBEDDING.search(tie.kept) and not _EMBEDDING.search(tie.dropped):
        yield f"{tie.dropped} was left out for {tie.kept}, but config.json says that they are untied"
    kept = stored[tie.kept]
    if tie.tensor is None or kept.path is None:
        return
    if kept.entry.spec.shape != tie.tensor.spec.shape:
        yield f"{tie.dropped} is {tie.tensor.spec} in the source, {tie.kept} is {kept.entry.spec}"
        return
    with closing(DiskFile(kept.path, kept.file)) as written:
        at = first_difference(written, kept.entry, tie.tensor)
    if at is not None:
        yield f"{tie.kept} does not hold the values of {tie.dropped}: first at {at}"


def _stored(files: Mapping[str, Written]) -> dict[str, _Stored]:
    return {
        entry.name: _Stored(file, one.path, entry)
        for file, one in files.items()
        if not isinstance(one.header, str)  # the check of the names says so
        for entry in one.header.entries
    }


def _says_untied(config: Path) -> bool:
    """Whether `tie_word_embeddings` is false wherever the configuration has it, and is somewhere."""
    try:
        document = json.loads(config.read_bytes())
    except (OSError, ValueError):
        return False
    parts = [document, *(part for part in document.values() if isinstance(part, dict))]
    said = [part["tie_word_embeddings"] for part in parts if "tie_word_embeddings" in part]
    return bool(said) and not any(said)
