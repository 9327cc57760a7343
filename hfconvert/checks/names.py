"""The `names` check: the written headers, read by the safetensors library too, hold what the plan says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hfconvert.checks.result import Check
from hfconvert.checks.ties import Restored, tie_faults
from hfconvert.checks.written import Held, Written
from hfconvert.tensors.lazy import TensorSpec

Expected = Mapping[str, tuple[str, TensorSpec]]  # name to file and spec


def check_names(
    expected: Expected,
    files: Mapping[str, Written],
    index: Path | None,
    ties: Sequence[Restored] = (),
    config: Path | None = None,
) -> Check:
    """Compare name, shape and dtype of every tensor with the plan, and index with headers both ways.

    `files` are the written files by their final names, as they were opened afresh, `index` the written index
    if there is one. Of every tie, the name that was left out has to come back from the one that is stored;
    `config` is the written configuration.
    """
    found: dict[str, tuple[str, str, tuple[int, ...]]] = {}
    faults: list[str] = []
    stored = 0
    for file, written in files.items():
        ours = written.header
        faults += written.faults
        if isinstance(ours, str):
            faults.append(ours)
            continue
        if {
            entry.name: Held(entry.spec.dtype.code, entry.spec.shape) for entry in ours.entries
        } != written.held:
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


def _differences(wanted: Mapping[str, object], found: Mapping[str, object]) -> Iterable[str]:
    for name in wanted.keys() | found.keys():
        if wanted.get(name) != found.get(name):
            yield f"{name}: planned {wanted.get(name)}, written {found.get(name)}"


def _index_faults(index: Path, held: Mapping[str, str], stored: int) -> Iterable[str]:
    try:
        document = json.loads(index.read_bytes())
        weight_map, total = document["weight_map"], document["metadata"]["total_size"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield f"{index.name} is no index: {error}"
        return
    if weight_map != held:
        yield f"{index.name} does not map every tensor to the file that holds it"
    if total != stored:
        yield f"{index.name} claims {total} bytes, {stored} are stored"
