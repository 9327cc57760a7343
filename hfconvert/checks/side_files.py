"""The `files` check of somebody's conversion: configuration, tokenizer, code, each against the source's.

What `config.json` says of the dtype may follow the tensors. Papers (a card, a licence, pictures) are no part
of the model: where they differ, that is a finding and no fault.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from hfconvert.checks.result import Check
from hfconvert.findings import Finding, info
from hfconvert.hashing import hash_file
from hfconvert.tensors.source import LocalFile

MAX_JSON = 16 << 20  # bytes; larger files are compared as bytes alone
_PAPERS = (
    "*.md",
    "*.txt",
    "LICENSE*",
    "NOTICE*",
    "*.png",
    "*.jpg",
    "*.jpeg",
    "*.gif",
    "*.svg",
    "*.pdf",
)
_NO_PAPERS = ("vocab.txt", "merges.txt", "*tokens.txt", "requirements.txt")
_DTYPE = {"dtype", "torch_dtype"}
_OF_THE_WRITER = {"transformers_version", "_name_or_path"}  # say nothing of the model


@dataclass(frozen=True, slots=True)
class Expected:
    """Side files of the source by name, and the content of those that a recipe rewrites."""

    files: Mapping[str, LocalFile]
    rewritten: Mapping[str, bytes]

    @property
    def names(self) -> set[str]:
        """All of them."""
        return {*self.files, *self.rewritten}


def check_side_files(
    expected: Expected, found: Mapping[str, LocalFile], dtypes: Collection[str]
) -> tuple[Check, tuple[Finding, ...]]:
    """Compare side files; `dtypes` are torch's names of the floating types that the candidate stores."""
    faults, said = [], []
    for name in sorted(expected.names | found.keys()):
        fault = _fault(name, expected, found, dtypes)
        if fault is None:
            continue
        if _is_paper(name) or fault.startswith(_HARMLESS):
            said.append(info("files", name, fault))
        else:
            faults.append((name, fault))
    check = Check(
        "files",
        "fail" if faults else "pass",
        {"files": len(expected.names), "faults": len(faults)},
        {"faults": 0},
        "; ".join(f"{name}: {fault}" for name, fault in faults[:10]),
    )
    errors = [
        Finding(level="error", check="files", subject=name, message=fault, hint=_hint(name))
        for name, fault in faults
    ]
    return check, (*errors, *said)


_HARMLESS = "only says"


def _fault(
    name: str, expected: Expected, found: Mapping[str, LocalFile], dtypes: Collection[str]
) -> str | None:
    if name not in found:
        return "missing: the source has it"
    if name not in expected.names:
        return "added: the source does not have it"
    theirs = found[name]
    content = expected.rewritten.get(name)
    if content is not None:
        same = theirs.size == len(content) and theirs.path.read_bytes() == content
    else:
        ours = expected.files[name]
        same = ours.size == theirs.size and hash_file(ours.path) == hash_file(theirs.path)
    if same:
        return None
    before = _document(content if content is not None else expected.files[name])
    after = _document(theirs)
    if before is None or after is None:
        return "is not what the source has"
    return _json_fault(name, list(_changes(before, after)), dtypes)


def _json_fault(
    name: str, changes: list[tuple[str, str, str]], dtypes: Collection[str]
) -> str | None:
    """What differs in two JSON objects, None where that follows from the tensors or is only layout."""
    real = [change for change in changes if not _follows(change, dtypes)]
    if not changes or (name == "config.json" and not real):
        return None
    last = {key.rpartition(".")[2] for key, _, _ in real}
    text = "; ".join(f"{key}: {before} -> {after}" for key, before, after in real[:8])
    text += f"; and {len(real) - 8} more" if len(real) > 8 else ""
    return f"{_HARMLESS} who wrote it: {text}" if last <= _OF_THE_WRITER else f"differs: {text}"


def _follows(change: tuple[str, str, str], dtypes: Collection[str]) -> bool:
    """Whether a change says the dtype that the tensors have, or moves that to the field's other name."""
    key, _, after = change
    if key.rpartition(".")[2] not in _DTYPE:
        return False
    return after == _ABSENT or after.strip('"').removeprefix("torch.") in dtypes


_ABSENT = "absent"


def _changes(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Where two JSON values differ: key path, before, after."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            inner = f"{path}.{key}" if path else str(key)
            if key not in before:
                yield inner, _ABSENT, _short(after[key])
            elif key not in after:
                yield inner, _short(before[key]), _ABSENT
            else:
                yield from _changes(before[key], after[key], inner)
    elif json.dumps(before) != json.dumps(after):
        yield path, _short(before), _short(after)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _document(content: bytes | LocalFile) -> dict[str, Any] | None:
    if isinstance(content, LocalFile):
        if not content.name.endswith(".json") or content.size > MAX_JSON:
            return None
        content = content.path.read_bytes()
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _is_paper(name: str) -> bool:
    base = name.rpartition("/")[2]
    return _matches(base, _PAPERS) and not _matches(base, _NO_PAPERS)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _hint(name: str) -> str:
    if name.endswith(".py"):
        return "code runs with trust_remote_code: read it before anything else"
    return "take the source's own file"
