"""The output folder and the work folder beside it.

Everything is made in `.NAME.hfconvert` next to the output `NAME` and renamed as the last act, so an output
folder is either absent, an older complete one, or complete. A run that was killed leaves its work folder; the
journal in it says which shards are complete, and for which plan.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hfconvert.errors import (
    Problem,
    UserError,
    exhausted_problem,
    recipe_problem,
    resource_problem,
)
from hfconvert.hashing import hash_file
from hfconvert.tensors.tally import Loss

RECORD = "hfconvert.json"
JOURNAL = ".hfconvert.jsonl"  # hidden: no side file of a source has such a name


@dataclass(frozen=True, slots=True)
class Finished:
    """A shard that is complete and on disk."""

    file: str
    size: int
    sha256: str
    losses: Mapping[str, Loss]

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Finished | None:
        """From a line of the journal; None where it is no such line."""
        try:
            losses = {name: Loss(*counts) for name, counts in line["losses"].items()}
            return cls(line["file"], line["size"], line["sha256"], losses)
        except (AttributeError, KeyError, TypeError):
            return None

    def as_json(self) -> dict[str, Any]:
        """As a line of the journal."""
        losses = {name: list(loss) for name, loss in self.losses.items()}
        return {"file": self.file, "size": self.size, "sha256": self.sha256, "losses": losses}


@dataclass(frozen=True)
class Journal:
    """Which shards in a work folder are complete: one JSON object a line, the first names the plan."""

    path: Path
    _finished: Mapping[str, Finished] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of the shards that an earlier run completed."""
        return sum(one.size for one in self._finished.values())

    @property
    def recorded(self) -> Mapping[str, Finished]:
        """The shards that an earlier run completed, whether or not they still lie on this disk."""
        return self._finished

    def finished(self, file: str, size: int) -> Finished | None:
        """A shard that an earlier run completed and that still has these very bytes."""
        known = self._finished.get(file)
        path = self.path.parent / file
        if known is None or known.size != size or not path.is_file() or path.stat().st_size != size:
            return None
        return known if hash_file(path) == known.sha256 else None

    def finish(self, shard: Finished) -> None:
        """Record that a shard is complete and on disk."""
        _append(self.path, shard.as_json())


def read_record(folder: Path) -> Mapping[str, Any] | None:
    """What an earlier run recorded in its output folder, or None where there is no readable record."""
    try:
        record = json.loads((folder / RECORD).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def check_free(output: Path, where: str) -> None:
    """UserError (exit 2) where no work folder could be renamed to this output: nothing is overwritten."""
    try:
        taken = _what_is_there(output.absolute())
    except OSError as error:
        raise UserError(_unwritable(output, error, where)) from error
    if taken:
        raise UserError(_taken(output, taken, where))


def beside(output: Path) -> Path:
    """The work folder for an output."""
    return output.parent / f".{output.name}.hfconvert"


@contextmanager
def work_folder(output: Path, key: str, where: str) -> Iterator[tuple[Path, Journal]]:
    """The work folder for an output and the plan `key`, locked; resumed where it is of the same plan.

    Left behind only where the run was interrupted; removed where it failed. UserError (exit 2) where it
    cannot be made or another run holds it.
    """
    output = output.absolute()
    folder = beside(output)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UserError(_unwritable(folder, error, where)) from error
    try:
        _take(lock, folder, where)
        _check_ours(folder, where)
        with _removed_on_failure(folder):
            yield folder, _resume(folder, key)
    finally:
        os.close(lock)


def hand_over(folder: Path, output: Path) -> None:
    """The last act: everything is on disk, the journal goes, the work folder takes the output's name.

    A kill between the two leaves a work folder with a record and no journal: the next run makes it anew.
    """
    (folder / JOURNAL).unlink(missing_ok=True)
    sync(folder)
    folder.rename(output)
    sync(output.parent)


def write_file(path: Path, content: bytes) -> None:
    """Write a small file and sync it, under a temporary name until it is complete."""
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def sync(folder: Path) -> None:
    """Sync the entries of a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_space(folder: Path, needed: int) -> None:
    """UserError (exit 5) where the disk has less room than the plan needs."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UserError(
            resource_problem(
                f"the output needs {needed} bytes, the disk has {free} free",
                why="the disk is too full for this conversion",
                do="free some space, or choose an output on another disk",
                subject=str(folder),
            )
        )


@contextmanager
def _removed_on_failure(folder: Path) -> Iterator[None]:
    """An interrupt is no failure: what is complete then can be resumed."""
    try:
        yield
    except Exception:
        with suppress(OSError):
            _empty(folder)
            folder.rmdir()
        raise


def _take(lock: int, folder: Path, where: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise UserError(
            recipe_problem(
                f"another run is working in {folder}",
                why="two runs have the same output folder",
                do="wait for it, or choose another output",
                subject=where,
            )
        ) from error


def _resume(folder: Path, key: str) -> Journal:
    path = folder / JOURNAL
    lines = _lines(path)
    if lines and lines[0].get("plan") == key:
        finished = {one.file: one for one in map(Finished.of, lines[1:]) if one}
        lines = [lines[0], *(one.as_json() for one in finished.values())]
        _empty(folder, keep={JOURNAL, *finished})
        write_file(path, "".join(json.dumps(line) + "\n" for line in lines).encode())
        return Journal(path, finished)
    _empty(folder)
    write_file(path, (json.dumps({"plan": key}) + "\n").encode())
    return Journal(path)


def _check_ours(folder: Path, where: str) -> None:
    """What a run left begins with a journal and ends with a record; anything else is not touched."""
    names = {path.name for path in folder.iterdir() if path.suffix != ".part"}
    if names and not names & {JOURNAL, RECORD}:
        raise UserError(_taken(folder, "it holds files that no run of hfconvert left there", where))


def _lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a journal; a last line that was cut off by a kill is no line."""
    try:
        content = path.read_bytes()
    except OSError:
        return []
    lines = []
    for line in content.split(b"\n")[:-1]:
        try:
            value = json.loads(line)
        except ValueError:
            break
        if not isinstance(value, dict):
            break
        lines.append(value)
    return lines


def _append(path: Path, value: Mapping[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _empty(folder: Path, keep: Container[str] = ()) -> None:
    """Remove what is in a work folder; the journal last, so that a kill on the way leaves it ours."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name in {JOURNAL, RECORD}):
        if path.name in keep:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _what_is_there(output: Path) -> str | None:
    """Why no folder can be renamed to this path; None where one can."""
    if output.name in {"", ".."}:
        return "it has no name of its own"
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        return "it is not a folder"
    if not output.is_dir():
        return None
    if any(output.iterdir()):
        return "it is not empty"
    if output.is_mount():
        return "a file system is mounted there, and the result has to appear by a rename"
    return "it is the current folder" if output.samefile(Path.cwd()) else None


def _taken(path: Path, what: str, where: str) -> Problem:
    return recipe_problem(
        f"the output folder {path} cannot be used: {what}",
        why="a result appears whole under a name of its own, and never replaces anything",
        do="choose another output, or move what is there away",
        subject=where,
    )


def _unwritable(path: Path, error: OSError, where: str) -> Problem:
    why = "the folder above it is read-only, or is no folder"
    if error.errno == errno.ENAMETOOLONG:
        why = "a name is too long for this system"
    return exhausted_problem(error) or recipe_problem(
        f"the output folder cannot be made: {path}: {error.strerror}",
        why=why,
        do="choose another output",
        subject=where,
    )
