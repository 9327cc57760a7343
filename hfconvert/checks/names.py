"""The `names` check: the written headers, read by the safetensors library too, hold what the plan says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from safetensors import safe_open

from hfconvert.checks.result import Check
from hfconvert.checks.ties import Restored, tie_faults
from hfconvert.tensors.header import read_header
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.source import LocalFile

Expected = Mapping[str, tuple[str, TensorSpec]]  # name to file and spec


def check_names(
    expected: Expected,
    files: Mapping[str, Path],
    index: Path | None,
    ties: Sequence[Restored] = (),
    config: Path | None = None,
) -> Check:
    """Compare name, shape and dtype of every tensor with the plan, and index with headers both ways.

    `files` are the written files by their final names, `index` the written index if there is one. Of every
    tie, the name that was left out has to come back from the one that is stored; `config` is the written
    configuration.
    """
    found: dict[str, tuple[str, str, tuple[int, ...]]] = {}
    faults: list[str] = []
    stored = 0
    for file, path in files.items():
        ours = read_header(LocalFile.of(path, file))
        theirs = _by_library(path)
        if {
            entry.name: (entry.spec.dtype.code, entry.spec.shape) for entry in ours.entries
        } != theirs:
            faults.append(f"{file}: the safetensors library reads its header differently")
        if (ours.metadata or {}).get("format") != "pt":
            faults.append(f"{file}: its metadata lacks format: pt")
        for entry in ours.entries:
            if entry.name in found:
                faults.append(f"{entry.name} is in {found[entry.name][0]} and in {file}")
            found[entry.name] = (file, entry.spec.dtype.code, entry.spec.shape)
            stored += entry.spec.nbytes
    wanted = {name: (file, spec.dtype.code, spec.shape) for name, (file, spec) in expected.items()}
    faults += _differences(wanted, found)
    if index is not None:
        faults += _index_faults(index, {name: file for name, (file, _, _) in found.items()}, stored)
    faults += tie_faults(ties, files, config)
    return Check(
        "names",
        "fail" if faults else "pass",
        {"tensors": len(found), "files": len(files), "ties": len(ties), "faults": len(faults)},
        {"tensors": len(expected), "faults": 0},
        "; ".join(faults[:10]),
    )


def _by_library(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    with safe_open(str(path), framework="np") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        return {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}


def _differences(wanted: Mapping[str, object], found: Mapping[str, object]) -> Iterable[str]:
    for name in wanted.keys() | found.keys():
        if wanted.get(name) != found.get(name):
            yield f"{name}: planned {wanted.get(name)}, written {found.get(name)}"


def _index_faults(index: Path, held: Mapping[str, str], stored: int) -> Iterable[str]:
    document = json.loads(index.read_bytes())
    if document["weight_map"] != held:
        yield f"{index.name} does not map every tensor to the file that holds it"
    if document["metadata"]["total_size"] != stored:
        yield f"{index.name} claims {document['metadata']['total_size']} bytes, {stored} are stored"
