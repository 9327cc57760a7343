"""Where results lie that are only made to be published: in the cache, next to what huggingface_hub keeps."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KEPT_SECONDS = 14 * 24 * 3600  # how long what a killed or refused run left waits for the next one


def workplace() -> Path:
    """The folder of all such results: `hfconvert` in HF_HOME, as huggingface_hub finds it."""
    home = os.environ.get("HF_HOME")
    if home is None:
        home = str(Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "huggingface"))
    return Path(os.path.expandvars(home)).expanduser() / "hfconvert"


def place_for(repo: str, key: str) -> Path:
    """The folder for the result of the plan `key` that is to go to a repository."""
    return workplace() / f"{repo.replace('/', '--')}-{key[:16]}"


@contextmanager
def one_at_a_time(repo: str) -> Iterator[None]:
    """Publish to a repository from one process of this machine at a time; others wait."""
    folder = workplace()
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{repo.replace('/', '--')}.lock"
    lock = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def remove(place: Path) -> None:
    """Remove a result that arrived."""
    shutil.rmtree(place, ignore_errors=True)


def remove_old(now: float | None = None) -> None:
    """Remove what nobody came back for: results and work folders that are older than two weeks."""
    oldest = (time.time() if now is None else now) - KEPT_SECONDS
    folder = workplace()
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        with suppress(OSError):
            if path.is_dir() and path.stat().st_mtime < oldest and not _is_held(path):
                remove(path)


def _is_held(path: Path) -> bool:
    """Whether a run works in the folder at this moment."""
    folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(folder)
    return False
