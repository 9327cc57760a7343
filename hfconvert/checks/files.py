"""The `files` check: side files arrived byte for byte, `config.json` says what is stored, nothing is extra.

Everything is read afresh; dtypes come from the headers by the safetensors library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hfconvert.checks.result import Check
from hfconvert.checks.written import Held, Written, held_by
from hfconvert.hashing import hash_file
from hfconvert.readers.json_text import REMOVED
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.source import LocalFile

KeyPath = tuple[str, ...]
Changes = Mapping[KeyPath, Any]

_RECORD = "hfconvert.json"  # a run that was killed at its end may have left one
_DTYPE = ("dtype", "torch_dtype")
_SAME = {"half": "float16", "float": "float32", "double": "float64"}


def check_files(
    copies: Sequence[LocalFile],
    rewritten: Sequence[tuple[LocalFile, Changes]],
    written: Iterable[str],
    folder: Path,
    gone: Iterable[Written] = (),
) -> Check:
    """Compare every copied file with its source by sha256, and every rewritten one value by value.

    `written` are the files that come from no file of the source: weights and their index; `gone` are weights
    that lie in the folder no more. Faults are a file too many or too few, too, and a dtype in `config.json`
    that no floating tensor has.
    """
    weights = list(written)
    known = {*(one.name for one in copies), *(one.name for one, _ in rewritten), *weights}
    present = set(_present(folder))
    faults = [f"{name} is missing" for name in sorted(known - present)]
    faults += [f"{name} is too much" for name in sorted(present - known)]
    faults += [
        f"{copy.name} is not what the source holds"
        for copy in copies
        if copy.name in present and hash_file(folder / copy.name) != hash_file(copy.path)
    ]
    for source, changes in rewritten:
        faults += _rewriting_faults(source, changes, folder / source.name)
    headers = [held_by(folder / name) for name in weights if name.endswith(".safetensors")]
    faults += _config_faults(folder, [*headers, *(one.held for one in gone)])
    return Check(
        "files",
        "fail" if faults else "pass",
        {"files": len(copies) + len(rewritten), "changed": len(rewritten), "faults": len(faults)},
        {"faults": 0},
        "; ".join(faults[:10]),
    )


def _present(folder: Path) -> Iterator[str]:
    """The files of the result: hidden ones are of the run, and no side file is hidden."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not path.name.startswith(".") and name != _RECORD:
            yield name


def _rewriting_faults(source: LocalFile, changes: Changes, path: Path) -> Iterator[str]:
    """All values but the changed ones are the source's, in the same order; those are as planned."""
    before, after = _object(source.path), _object(path)
    if before is None or after is None:
        yield f"{source.name} is no JSON object"
        return
    for (*parents, last), value in changes.items():
        target: Any = before
        for key in parents:
            target = target[key]
        if value is REMOVED:
            target.pop(last, None)
        else:
            target[last] = value
    if json.dumps(before) != json.dumps(after):
        yield f"{source.name} differs from the source's by more than {_fields(changes)}"


def _config_faults(folder: Path, headers: Iterable[Mapping[str, Held]]) -> Iterator[str]:
    path = folder / "config.json"
    if not path.is_file():
        return
    config = _object(path)
    if config is None:
        yield "config.json is no JSON object"
        return
    if any(("quant" in key or "compress" in key) and value for key, value in config.items()):
        return
    stored = set(_floats(headers))
    for field, value in _said(config, ()):
        name = value.removeprefix("torch.")
        name = _SAME.get(name, name)
        if stored and name not in stored and name in {one.torch for one in BY_CODE.values()}:
            yield f"{'.'.join(field)} says {value}, stored is {', '.join(sorted(stored))}"


def _said(config: Mapping[str, Any], path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """The dtype fields of a configuration and of the configurations within it."""
    for key, value in config.items():
        if key in _DTYPE and isinstance(value, str):
            yield (*path, key), value
        elif key.endswith("_config") and isinstance(value, dict):
            yield from _said(value, (*path, key))


def _floats(headers: Iterable[Mapping[str, Held]]) -> Iterator[str]:
    """torch's names of the floating types in these headers."""
    for header in headers:
        for held in header.values():
            dtype = BY_CODE[held.code]
            if dtype.kind == "float" and dtype.torch:
                yield dtype.torch


def _object(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def _fields(changes: Changes) -> str:
    return ", ".join(".".join(path) for path in changes)
