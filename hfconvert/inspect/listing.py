"""The files of a folder: regular ones only, within bounds, links and pipes named and never opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hfconvert.errors import Problem, UserError, source_problem
from hfconvert.findings import Finding, warning
from hfconvert.tensors.source import LocalFile, SourceFile

MAX_FILES = 50_000


@dataclass(frozen=True, slots=True)
class Listing:
    """A folder, its files by their place in it, and what is to be said of what was passed over."""

    root: Path
    files: tuple[SourceFile, ...]
    findings: tuple[Finding, ...] = ()
    alone: bool = False  # one file was named, not a folder

    @property
    def names(self) -> list[str]:
        """The places of the files, sorted."""
        return [file.name for file in self.files]


def list_files(path: Path) -> Listing:
    """The files at a path: one file alone, or all below a folder. Hidden ones are passed over.

    UserError (exit 3) where there is nothing, or nothing that can be looked at.
    """
    try:
        if path.is_dir():
            return _folder(path)
        if path.is_file():
            return Listing(path.parent, (LocalFile.of(path, path.name),), alone=True)
    except OSError as error:
        raise UserError(_unreadable(path, error.strerror or str(error))) from error
    there = path.is_symlink() or path.exists()
    raise UserError(_unreadable(path, "it is no regular file") if there else _absent(path))


def printable(name: str) -> str:
    """A name as a document can hold it: bytes that are no UTF-8, and halves of pairs, as escapes."""
    try:
        content = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # JSON can spell halves of surrogate pairs that stand for no byte
        content = name.encode("utf-8", "backslashreplace")
    return content.decode("utf-8", "backslashreplace")


def _folder(root: Path) -> Listing:
    files: list[LocalFile] = []
    odd: list[str] = []
    for name in _walk(root):
        if len(files) == MAX_FILES:
            told = f"it has more than {MAX_FILES} files; the rest is not listed"
            return Listing(root, tuple(files), (warning("files", str(root), told),))
        try:
            regular = (root / name).is_file()
            if regular:
                files.append(LocalFile.of(root / name, name))
        except OSError:
            regular = False
        if not regular:
            odd.append(printable(name))
    findings = (_odd(odd),) if odd else ()
    return Listing(root, tuple(sorted(files, key=lambda file: file.name)), findings)


def _walk(root: Path) -> Iterator[str]:
    """Places of all files that are not hidden; links to folders are not followed."""
    os.scandir(root).close()  # os.walk passes over a folder that it may not read
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(folder, name).relative_to(root).as_posix()


def _odd(names: list[str]) -> Finding:
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return warning(
        "files",
        "",
        f"{len(names)} entries are no files that can be read: {shown}",
        "links that lead nowhere: a download may have been interrupted",
    )


def _absent(path: Path) -> Problem:
    return source_problem(
        "there is no such file or folder",
        why="the path is misspelt, or relative to another folder",
        do="name a folder or a file; a repository is org/name",
        subject=printable(str(path)),
    )


def _unreadable(path: Path, how: str) -> Problem:
    return source_problem(
        f"it cannot be looked at: {how}",
        why="it has no read permission, or it is a device, a pipe or a link that leads nowhere",
        do="name a folder or a file that can be read",
        subject=printable(str(path)),
    )
