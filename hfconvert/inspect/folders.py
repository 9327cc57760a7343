"""Which folders of a source hold its weights: the top, the parts of a pipeline, the newest checkpoint.

What is chosen here is what a conversion would read, or what it would ask to choose from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hfconvert.errors import Problem, UserError, source_problem
from hfconvert.findings import Finding, info, warning
from hfconvert.readers.layout import Layout, find_layouts, rivals_of

_CHECKPOINT = re.compile(r"(?:^|/)(?:checkpoint|ckpt|global_step|iter|step|epoch)[-_=]?(\d+)[^/]*$")
_PARTS = ("model_index.json", "modules.json")  # of diffusers, of sentence-transformers
MAX_LIST = 1 << 20  # bytes of a list of parts
MOST_MISSING = 20  # files that are named one by one


@dataclass(frozen=True, slots=True)
class Chosen:
    """The layouts whose files are weights, with the folder of each, and the files that are left aside."""

    layouts: tuple[tuple[str, Layout], ...]
    aside: Mapping[str, str]  # file -> why
    problems: tuple[Problem, ...]
    findings: tuple[Finding, ...]

    @property
    def weights(self) -> frozenset[str]:
        """The files that are weights, by their place in the source."""
        return frozenset(
            placed(folder, file) for folder, layout in self.layouts for file in layout.files
        )


def choose_folders(root: Path, names: Iterable[str]) -> Chosen:
    """Choose among all the folders that have files with the names of weights."""
    found: dict[str, list[Layout]] = {}
    problems: list[Problem] = []
    for folder, files in by_folder(names).items():
        try:
            layouts = find_layouts(root / folder, files)
        except (UserError, OSError) as error:
            problems += error.problems if isinstance(error, UserError) else []
            continue
        if layouts:
            found[folder] = layouts
    folders, findings = _chosen(root, list(found))
    chosen: list[tuple[str, Layout]] = []
    aside: dict[str, str] = {}
    for folder, layouts in found.items():
        best = [layouts[0], *rivals_of(layouts)] if folder in folders else []
        problems += _ambiguous(folder, best)
        chosen += [(folder, layout) for layout in best]
        for layout in layouts:
            if layout not in best:
                told = (
                    f"{placed(folder, best[0].label)} is read" if best else "another folder is read"
                )
                aside |= {placed(folder, file): told for file in layout.files}
    problems += _missing(root, chosen)
    return Chosen(tuple(chosen), aside, tuple(problems), tuple(findings))


def by_folder(names: Iterable[str]) -> dict[str, list[str]]:
    """The names of files, without that of their folder, by folder."""
    folders: dict[str, list[str]] = {}
    for name in names:
        folder, _, file = name.rpartition("/")
        folders.setdefault(folder, []).append(file)
    return folders


def placed(folder: str, file: str) -> str:
    """The place of a file of a folder."""
    return f"{folder}/{file}" if folder else file


def _chosen(root: Path, folders: Sequence[str]) -> tuple[set[str], list[Finding]]:
    """The folders to read, of those that have weights."""
    parts = _parts(root)
    wanted = {folder for folder in folders if not folder or folder.partition("/")[0] in parts}
    if wanted:
        return wanted, []
    plain = [folder for folder in folders if not _CHECKPOINT.search(folder)]
    if plain:
        said = [_several(plain, "several folders hold weights")] if len(plain) > 1 else []
        return set(plain), said
    if not folders:
        return set(), []
    newest = max(folders, key=lambda folder: int(_CHECKPOINT.search(folder)[1]))  # type: ignore[index]  # all match
    said = [info("source", newest, f"the newest of {len(folders)} checkpoints")]
    return {newest}, said if len(folders) > 1 else []


def _parts(root: Path) -> set[str]:
    """Names of folders that a list of parts speaks of."""
    found: set[str] = set()
    for file in _PARTS:
        try:
            if (root / file).stat().st_size <= MAX_LIST:
                found |= _named(json.loads((root / file).read_bytes()))
        except (OSError, ValueError, RecursionError):
            continue
    return found


def _named(document: Any) -> set[str]:
    if isinstance(document, dict):
        return {key for key, value in document.items() if isinstance(value, list)}
    items = document if isinstance(document, list) else []
    paths = (item.get("path") for item in items if isinstance(item, dict))
    return {path for path in paths if isinstance(path, str) and path}


def _several(folders: Sequence[str], what: str) -> Finding:
    shown = ", ".join(folders[:5]) + (", ..." if len(folders) > 5 else "")
    return warning("source", "", f"{what}: {shown}", "name the one to convert")


def _ambiguous(folder: str, layouts: Sequence[Layout]) -> list[Problem]:
    if len(layouts) < 2:
        return []
    listed = ", ".join(placed(folder, layout.label) for layout in layouts[:8])
    more = f" and {len(layouts) - 8} more" if len(layouts) > 8 else ""
    return [
        source_problem(
            f"several files could be the weights: {listed}{more}",
            why="no index and no name that loaders look for tells them apart",
            do="name the right ones in source.files",
        )
    ]


def _missing(root: Path, layouts: Iterable[tuple[str, Layout]]) -> Iterator[Problem]:
    """Files that an index or numbers in names promise, and that are not there: the first, and a count."""
    for folder, layout in layouts:
        absent = [file for file in layout.files if not (root / folder / file).is_file()]
        for number, file in enumerate(absent[:MOST_MISSING]):
            last = number + 1 == MOST_MISSING < len(absent)
            more = f", and {len(absent) - MOST_MISSING} more like it" if last else ""
            yield source_problem(
                f"this file is missing{more}",
                why=f"{placed(folder, layout.label)} needs it; a download may have been interrupted",
                do="fetch it again",
                subject=placed(folder, file),
            )
