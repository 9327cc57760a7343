"""A repository as a local folder: its small files fetched, its weights fetched too or read by ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from huggingface_hub import constants
from huggingface_hub.file_download import repo_folder_name

from hfconvert.errors import raise_any, source_problem
from hfconvert.findings import Finding
from hfconvert.hub.folder import RemoteFolder
from hfconvert.hub.source import HubFile, Snapshot, cached_bytes, fetch_all
from hfconvert.planning.digest import file_key
from hfconvert.readers.index import SUFFIX
from hfconvert.readers.layout import choose
from hfconvert.readers.origin import Origin
from hfconvert.readers.side_files import RECORD, is_side_file
from hfconvert.tensors.source import LocalFile, SourceFile

MAX_LOOKED_AT = 1 << 20  # bytes of a file that is fetched only to be looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What of a repository is wanted: the folder in it, and the globs of `source.files` or `source.ranks`."""

    subfolder: str | None = None
    files: Sequence[str] | None = None
    ranks: str | None = None
    where: str = "source.files"


@dataclass(frozen=True, slots=True)
class Checkout:
    """The local folder that stands for the root of a snapshot, and what is known of its files."""

    root: Path
    origin: Origin


def check_out(snapshot: Snapshot, asked: Asked) -> Checkout:
    """Fetch everything that a conversion reads or copies, each file verified. UserError (exit 2 to 5)."""
    root, beside = _small_files(snapshot, asked)
    weights, findings = _weights(snapshot, asked, root)
    wanted = [*beside, *(_placed(asked, name) for name in weights)]
    missing = sum(snapshot.file(path).size for path in wanted) - cached_bytes(snapshot, wanted)
    fetch_all(snapshot, wanted)
    known = {
        file_key(LocalFile.of(root / path)): content_of(snapshot.file(path)) for path in wanted
    }
    return Checkout(root, _origin(snapshot, findings, missing, known=known))


def look_into(snapshot: Snapshot, asked: Asked) -> Checkout:
    """Fetch small files only; weights are read by ranges, a few kilobytes of each. UserError as above."""
    root, beside = _small_files(snapshot, asked)
    weights, findings = _weights(snapshot, asked, root)
    folder = RemoteFolder(snapshot, asked.subfolder)
    remote = {name: folder.open(name) for name in weights}
    paths = [_placed(asked, name) for name in weights]
    missing = sum(snapshot.file(path).size for path in paths) - cached_bytes(snapshot, paths)
    known = {
        file_key(LocalFile.of(root / path)): content_of(snapshot.file(path)) for path in beside
    }
    for name, path in zip(weights, paths, strict=True):
        known[file_key(remote[name])] = content_of(snapshot.file(path))
    return Checkout(root, _origin(snapshot, findings, missing, known=known, remote=remote))


def side_folder(snapshot: Snapshot) -> Path:
    """Fetch everything that is no weight; the local folder that holds it. UserError as above."""
    root, _ = _small_files(snapshot, Asked())
    return root


def list_repository(snapshot: Snapshot) -> tuple[Path, tuple[SourceFile, ...]]:
    """Every file: small ones fetched to the folder that is returned, the others to be read by ranges."""
    small = [path for path, file in snapshot.files.items() if _is_small(file)]
    fetch_all(snapshot, small)
    root, folder = snapshot_folder(snapshot), RemoteFolder(snapshot)
    root.mkdir(parents=True, exist_ok=True)
    here = set(small)
    files = (
        LocalFile.of(root / path, path) if path in here else folder.open(path)
        for path in sorted(snapshot.files)
        if not path.rpartition("/")[2].startswith(".")
    )
    return root, tuple(files)


def _is_small(file: HubFile) -> bool:
    """Whether a file is fetched to be looked at: configurations, indexes, papers, records, but no weights."""
    told = is_side_file(file.path) or file.path.rpartition("/")[2] == RECORD
    beside = told and file.size <= MAX_LOOKED_AT
    return beside or file.path.endswith(SUFFIX)


def content_of(file: HubFile) -> str:
    """The content of a file as digests name it: its sha256 in hex, or `git:` and its blob id."""
    return file.identity.removeprefix("sha256:")


def _origin(
    snapshot: Snapshot,
    findings: tuple[Finding, ...],
    missing: int,
    *,
    known: Mapping[tuple[str, int, int], str],
    remote: Mapping[str, SourceFile] | None = None,
) -> Origin:
    return Origin(
        repo=snapshot.repo,
        commit=snapshot.commit,
        remote=remote or {},
        known=known,
        download_bytes=missing,
        findings=findings,
    )


def _small_files(snapshot: Snapshot, asked: Asked) -> tuple[Path, list[str]]:
    """Fetch side files and indexes; the local root of the snapshot, and the side files' paths."""
    names = snapshot.below(asked.subfolder)
    beside = [_placed(asked, name) for name in names if is_side_file(name)]
    indexes = [_placed(asked, name) for name in names if name.endswith(SUFFIX)]
    fetch_all(snapshot, [*beside, *indexes])
    root = snapshot_folder(snapshot)
    (root / (asked.subfolder or "")).mkdir(parents=True, exist_ok=True)
    return root, beside


def snapshot_folder(snapshot: Snapshot) -> Path:
    """Where huggingface_hub keeps the files of this commit."""
    repo = repo_folder_name(repo_id=snapshot.repo, repo_type="model")
    return Path(constants.HF_HUB_CACHE, repo, "snapshots", snapshot.commit)


def _weights(
    snapshot: Snapshot, asked: Asked, root: Path
) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """The weight files that a conversion reads, by their names in the folder."""
    names = snapshot.below(asked.subfolder)
    if asked.ranks is not None:
        pattern = asked.ranks.replace("{r}", "*")
        return tuple(name for name in names if fnmatchcase(name, pattern)), ()
    folder = root / asked.subfolder if asked.subfolder else root
    choice = choose(folder, asked.files, asked.where, names)
    raise_any(
        source_problem(
            "the repository has no such file at this commit",
            why=f"{choice.layout.label} needs it; it was never uploaded, or was removed",
            do="ask the owner, or name another revision",
            subject=f"{snapshot.repo}/{name}",
        )
        for name in choice.layout.files
        if name not in names
    )
    return choice.layout.files, choice.findings


def _placed(asked: Asked, name: str) -> str:
    return str(PurePosixPath(asked.subfolder or "", name))
