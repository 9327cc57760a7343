"""Custom code that configurations name in `auto_map`: it is copied as any other file and never imported.

A reference is `module.Class` for a file beside the configuration, `org/repo--module.Class` for a file of
another repository (`transformers.dynamic_module_utils.get_class_from_dynamic_module`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from hfconvert.findings import Finding, info, warning
from hfconvert.readers.config import MAX_CONFIG
from hfconvert.tensors.source import LocalFile

_CONFIGURATIONS = ("config.json", "tokenizer_config.json", "*processor_config.json")


def references(files: Iterable[LocalFile]) -> dict[str, str]:
    """Every reference in the `auto_map` of these files, with the name of the file that has it first."""
    found: dict[str, str] = {}
    for file in files:
        if any(fnmatchcase(file.name, pattern) for pattern in _CONFIGURATIONS):
            for reference in _named(_auto_map(file)):
                found.setdefault(reference, file.name)
    return found


def code_file(reference: str) -> str | None:
    """The file beside the configuration that holds the class; None where it is another repository's."""
    if "--" in reference:
        return None
    return f"{reference.rpartition('.')[0].replace('.', '/')}.py"


def code_beside(root: Path, wanted: Iterable[str]) -> tuple[LocalFile, ...]:
    """The Python files of a folder, where one of the references is to a file in it: modules import others."""
    if not any(code_file(reference) for reference in wanted):
        return ()
    names = sorted(path.name for path in root.glob("*.py") if path.is_file())
    return tuple(LocalFile.of(root / name, name) for name in names)


def code_findings(wanted: dict[str, str], copied: Iterable[str]) -> Iterator[Finding]:
    """A warning for every file of code that is named and not copied; a word on code that lies elsewhere."""
    names = set(copied)
    for reference, file in wanted.items():
        code = code_file(reference)
        if code is None:
            repo = reference.partition("--")[0]
            yield info("files", file, f"its code stays in the repository {repo}: {reference}")
        elif code not in names:
            yield warning(
                "files",
                file,
                f"names {reference} in auto_map, but {code} is not in the source",
                "add the file, or name a folder that has it in source.assets_from",
            )


def _auto_map(file: LocalFile) -> Any:
    """The `auto_map` of a configuration; files that are no JSON are copied and not understood."""
    if file.size > MAX_CONFIG:
        return None
    try:
        document = json.loads(file.path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return document.get("auto_map") if isinstance(document, dict) else None


def _named(value: Any) -> Iterator[str]:
    """References in an `auto_map`: of a class, or of a slow and a fast tokenizer of which one may be null."""
    if isinstance(value, str) and "." in value:
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _named(inner)
