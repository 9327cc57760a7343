"""Send files to the Hub before the commit that names them: large ones travel now, small ones with it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, constants, get_session
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils.tqdm import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)

from hfconvert.errors import Problem, UserError, values_problem
from hfconvert.hub.about import About, hub_problem
from hfconvert.hub.failures import FAILURES, BrokenOffError, find_cause
from hfconvert.hub.target import Target
from hfconvert.report.sizes import human

STALL_SECONDS = 300.0
REGULAR_BYTES = 10 * 1024 * 1024  # what the Hub takes in a commit itself; larger files go to LFS


@dataclass(frozen=True, slots=True)
class Proven:
    """A file that passed its checks: its path in the repository, size, sha256, and its content."""

    path: str
    size: int
    sha256: str
    content: Path | bytes


@dataclass(frozen=True, slots=True)
class Sent:
    """A proven file as one commit takes it. Where it is `large`, the Hub has its content already."""

    file: Proven
    operation: Any
    large: bool


def send(target: Target, files: Iterable[Proven], say: Callable[[str], object] = str) -> list[Sent]:
    """Send the content of large files, each on its own, and make the files ready for a commit.

    What breaks off is tried again, then without Xet. What arrived counts only where its sha256 is the proven
    one. UserError: exit 4 where the Hub refuses, 1 where a file is no longer what was checked.
    """
    known = list(files)
    small = [file for file in known if file.size <= REGULAR_BYTES]
    sent = {one.file.path: one for one in _send(target, small)}
    for file in known:
        if file.path not in sent:
            say(f"upload   {file.path}  {human(file.size)}")
            sent |= {one.file.path: one for one in _send(target, [file])}
    return [sent[file.path] for file in known]


def _send(target: Target, files: list[Proven]) -> list[Sent]:
    if not files:
        return []
    operations = [CommitOperationAdd(file.path, _content(file)) for file in files]
    proposes = target.how == "pull_request"
    ways = iter((constants.HF_HUB_DISABLE_XET, True))
    way = next(ways)

    def preupload() -> None:
        nonlocal way
        expired = False
        try:
            with _quiet_bars(), _no_stall(), _without_xet(way):
                target.client.api.preupload_lfs_files(
                    target.repo, operations, create_pr=proposes, free_memory=True
                )
        except FAILURES as error:
            cause = find_cause(error)
            expired = isinstance(cause, HfHubHTTPError) and _is_of_storage(target, cause)
            if not isinstance(cause, HfHubHTTPError):
                way = next(ways, way)  # Xet itself failed, whatever the reason: the other may work
            if not expired:
                raise
        if expired:  # outside, so that the refusal is not what really failed
            raise BrokenOffError("the storage refused the upload")

    about = target.about.at(files[0].path) if len(files) == 1 else target.about
    target.client.ask(about, preupload)
    pairs = list(zip(files, operations, strict=True))
    problems = [one for file, made in pairs for one in _faults(target, file, made)]
    if problems:
        raise UserError(*problems)
    return [Sent(file, made, made._is_uploaded) for file, made in pairs]  # noqa: SLF001  # no other word


def _is_of_storage(target: Target, error: HfHubHTTPError) -> bool:
    """Whether not the Hub refused it but the storage, to whose signed addresses it sends: they expire."""
    address = str(error.response.request.url)
    return error.response.status_code < 500 and not address.startswith(target.client.endpoint)


def _content(file: Proven) -> Path | bytes:
    """Small files are held in memory: what was hashed is what is sent."""
    if isinstance(file.content, Path) and file.size <= REGULAR_BYTES:
        return file.content.read_bytes()
    return file.content


def _faults(target: Target, file: Proven, made: Any) -> Iterator[Problem]:
    """What the Hub said of a file before it was sent, and whether it is the one that was checked."""
    about = target.about.at(file.path)
    if made._should_ignore:  # noqa: SLF001  # as above
        yield hub_problem(
            about,
            "the repository's .gitignore leaves this file out",
            why="a pattern in it covers the name",
            do="remove the pattern from .gitignore, then run again",
        )
    if made._upload_mode == "regular" and file.size > REGULAR_BYTES:  # noqa: SLF001  # as above
        yield _too_large(about, file)
    if made._upload_mode == "regular" and isinstance(made.path_or_fileobj, bytes):  # noqa: SLF001
        sha256 = hashlib.sha256(made.path_or_fileobj).hexdigest()
    else:
        sha256 = made.upload_info.sha256.hex()
    if sha256 != file.sha256:
        yield values_problem(
            "the file is not the one that was checked: its sha256 is another",
            why="something changed it since, or the disk under it fails",
            do="run again",
            subject=file.path,
            check="publish",
        )


def _too_large(about: About, file: Proven) -> Problem:
    return hub_problem(
        about,
        f"the file has {human(file.size)}, and the repository keeps it without LFS",
        why="its .gitattributes do not give the name to LFS, and the Hub takes 10 MiB at most otherwise",
        do=f"add `{file.path} filter=lfs diff=lfs merge=lfs -text` to its .gitattributes, then run again",
    )


@contextmanager
def _no_stall() -> Iterator[None]:
    """A connection over which nothing moves is broken off: the client itself waits for ever. hf_xet, which
    has connections of its own, does the same by itself."""
    session = get_session()
    before = session.timeout
    session.timeout = STALL_SECONDS
    try:
        yield
    finally:
        session.timeout = before


@contextmanager
def _without_xet(off: object) -> Iterator[None]:
    before = constants.HF_HUB_DISABLE_XET
    constants.HF_HUB_DISABLE_XET = bool(off)
    try:
        yield
    finally:
        constants.HF_HUB_DISABLE_XET = before


@contextmanager
def _quiet_bars() -> Iterator[None]:
    """No progress bars of the client but on a terminal."""
    if sys.stderr.isatty() or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
