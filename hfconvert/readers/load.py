"""Open the weights of a source: choose the files, read each, hold index and headers against each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hfconvert.errors import (
    Problem,
    UserError,
    exhausted_problem,
    raise_any,
    recipe_problem,
    source_problem,
)
from hfconvert.findings import Finding, info, warning
from hfconvert.readers import ranks
from hfconvert.readers.contents import Contents, WeightSet
from hfconvert.readers.formats import read_file
from hfconvert.readers.index import check_index
from hfconvert.readers.layout import Choice, Layout, choose
from hfconvert.tensors.checkpoint import Checkpoint, found
from hfconvert.tensors.compare import same_values
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.source import LocalFile, SourceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the recipe says about its source, with the positions of what can be wrong."""

    files: tuple[str, ...] | None = None
    format: str = "auto"
    ranks: str | None = None  # names of files with `{r}` for the rank
    weights: str | None = None
    keep_indexed: bool = False
    refuse_dangerous: bool = True
    compare_twin: bool = True  # whether pickles beside safetensors have to hold the same values
    remote: Mapping[str, SourceFile] = field(
        default_factory=dict
    )  # files that lie elsewhere, by name
    where_path: str = "source.path"
    where_files: str = "source.files"
    where_ranks: str = "source.ranks"
    where_weights: str = "source.weights"


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A weight file that was opened, and what it holds."""

    source: SourceFile
    contents: Contents
    chosen: WeightSet


@dataclass(frozen=True, slots=True)
class Found:
    """The weights of a source, under the names that they have there."""

    root: Path
    layout: Layout
    files: tuple[OpenFile, ...]
    checkpoint: Checkpoint
    file_of: Mapping[str, str]
    metadata: Mapping[str, str]
    findings: tuple[Finding, ...]

    @property
    def format(self) -> str:
        """The format of the files: `safetensors` or `torch`."""
        return self.files[0].contents.format

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments that the run which wrote the weights recorded; none where no file does."""
        return next((file.contents.args for file in self.files if file.contents.args), {})


def load(path: Path, wanted: Wanted) -> Found:
    """Open the weights at a path, a folder or one file. UserError (exit 2 or 3) with all that is wrong."""
    try:
        return _load(path, wanted)
    except OSError as error:
        raise UserError(_unreadable(path, error)) from error


def _load(path: Path, wanted: Wanted) -> Found:
    root, choice = _choose(path, wanted)
    found_one = _open(root, choice.layout, wanted)
    findings = [*choice.findings, *found_one.findings]
    if choice.twin and wanted.files is None and wanted.compare_twin:
        findings.append(_held_against(found_one, choice.twin, wanted))
    return Found(
        root,
        choice.layout,
        found_one.files,
        found_one.checkpoint,
        found_one.file_of,
        found_one.metadata,
        tuple(findings),
    )


def _choose(path: Path, wanted: Wanted) -> tuple[Path, Choice]:
    if path.is_dir() and wanted.ranks is not None:
        return path, Choice(ranks.rank_layout(path, wanted.ranks, wanted.where_ranks), None, ())
    if path.is_dir():
        return path, choose(path, wanted.files, wanted.where_files, wanted.remote)
    if path.is_file():
        family = "safetensors" if path.suffix == ".safetensors" else "torch"
        return path.parent, Choice(Layout(path.stem, family, (path.name,)), None, ())  # type: ignore[arg-type]  # a literal
    raise UserError(
        source_problem(
            "there is no such file or folder",
            why="the path is misspelt, or relative to another folder (recipes: to the recipe)",
            do=f"correct it: {wanted.where_path}",
            subject=str(path),
        )
    )


def _open(root: Path, layout: Layout, wanted: Wanted) -> Found:
    _check_present(root, layout, wanted.remote)
    problems: list[Problem] = []
    opened: list[tuple[SourceFile, Contents]] = []
    for name in layout.files:
        source = wanted.remote.get(name) or LocalFile.of(root / name, name)
        try:
            opened.append((source, read_file(source, _format_of_file(wanted))))
        except UserError as error:
            problems += error.problems
    raise_any(problems)
    raise_any(_dangers(opened, wanted))  # before anything else that is wrong with such a file
    files = [
        OpenFile(source, contents, _chosen(source, contents, wanted)) for source, contents in opened
    ]
    if wanted.ranks is not None:
        files = [_of_rank(file, rank) for rank, file in enumerate(files)]
    tensors, file_of, findings = _together(layout, files, wanted)
    if not tensors:
        raise UserError(_empty(root, layout))
    findings += [finding for file in files for finding in file.contents.findings]
    findings += [*_sets_left(files, wanted), *_dangers_read(files)]
    if layout.index:
        held = {file.source.name: file.chosen.tensors for file in files}
        findings += check_index(layout.index, held)
    metadata, clashes = _metadata(files)
    checkpoint = found(tensors)
    return Found(
        root, layout, tuple(files), checkpoint, file_of, metadata, tuple(findings + clashes)
    )


def _format_of_file(wanted: Wanted) -> str:
    return "auto" if wanted.format == ranks.FORMAT else wanted.format


def _of_rank(file: OpenFile, rank: int) -> OpenFile:
    """The file with its names as those of a rank's slices."""
    chosen = replace(file.chosen, tensors=ranks.of_rank(file.chosen.tensors, rank))
    return replace(file, contents=replace(file.contents, format=ranks.FORMAT), chosen=chosen)


def _check_present(root: Path, layout: Layout, remote: Mapping[str, SourceFile]) -> None:
    missing = [name for name in layout.files if name not in remote and not (root / name).is_file()]
    raise_any(
        source_problem(
            "this file is missing",
            why=f"{layout.label} needs it; a download may have been interrupted",
            do="fetch it again, then run again",
            subject=str(root / name),
        )
        for name in missing
    )


def _chosen(source: SourceFile, contents: Contents, wanted: Wanted) -> WeightSet:
    """The set of weights to read: the one that the recipe names, the format's own, or the only one."""
    sets = contents.sets
    if contents.refusal is not None:
        raise contents.refusal
    if wanted.weights is not None:
        for candidate in sets:
            if candidate.name == wanted.weights:
                return candidate
        raise UserError(
            recipe_problem(
                f"{source.name} has no set of weights called {wanted.weights!r}",
                why="the name is misspelt, or the file is of another kind",
                do=f"it has: {_listed(sets)}",
                subject=wanted.where_weights,
            )
        )
    for candidate in sets:
        if candidate.name == contents.default:
            return candidate
    raise UserError(
        recipe_problem(
            f"{source.name} holds several sets of weights: {_listed(sets)}",
            why="training checkpoints keep averaged or wrapped copies beside the model",
            do="choose one with source.weights",
            subject=wanted.where_weights,
        )
    )


def _listed(sets: Iterable[WeightSet]) -> str:
    return ", ".join(
        f"{one.name or '(top)'} ({len(one.tensors)} tensors, {one.nbytes} bytes)" for one in sets
    )


def _sets_left(files: Iterable[OpenFile], wanted: Wanted) -> Iterable[Finding]:
    """Which set is read, where the format chose among several."""
    for file in files if wanted.weights is None else ():
        rest = [one for one in file.contents.sets if one is not file.chosen]
        if len(rest) == len(file.contents.sets) - 1 and rest:
            told = f"of its sets of weights `{file.chosen.name}` is read, which the format says is the model"
            hint = f"source.weights chooses another: {_listed(rest)}"
            yield info("source", file.source.name, told, hint)


def _dangers(opened: Iterable[tuple[SourceFile, Contents]], wanted: Wanted) -> Iterable[Problem]:
    if not wanted.refuse_dangerous:
        return
    for source, contents in opened:
        names = _dangerous(contents)
        if names:
            yield source_problem(
                f"its pickle asks for {names}",
                why="opened by an ordinary loader, this file would run code; here nothing was run",
                do="do not trust this file; source.refuse_dangerous: false reads its tensors all the same",
                subject=str(source.path),
                check="pickle",
            )


def _dangers_read(files: Iterable[OpenFile]) -> Iterable[Finding]:
    """What was passed over because the recipe says so."""
    for file in files:
        names = _dangerous(file.contents)
        if names:
            told = f"its pickle asks for {names}; nothing of it was run, only tensors are read"
            yield warning("pickle", file.source.name, told, "do not load this file otherwise")


def _dangerous(contents: Contents) -> str:
    """The dangerous names that a pickle asks for, as a list; nothing where it asks for none."""
    items = contents.pickle.dangerous if contents.pickle else ()
    return ", ".join(f"{item.module}.{item.name}" for item in items)


def _together(
    layout: Layout, files: Iterable[OpenFile], wanted: Wanted
) -> tuple[dict[str, LazyTensor], dict[str, str], list[Finding]]:
    """All the tensors of all the files; a name in two files must hold the same bytes in both."""
    tensors: dict[str, LazyTensor] = {}
    file_of: dict[str, str] = {}
    findings: list[Finding] = []
    problems: list[Problem] = []
    for file in files:
        for name, tensor in file.chosen.tensors.items():
            if name not in tensors:
                tensors[name], file_of[name] = tensor, file.source.name
                continue
            indexed = layout.index.weight_map.get(name) if layout.index else None
            both = f"{file_of[name]} and {file.source.name}"
            equal = same_values(tensors[name], tensor)
            if equal or wanted.keep_indexed:
                values = "equal values" if equal else "different values"
                if indexed == file.source.name:
                    tensors[name], file_of[name] = tensor, file.source.name
                kept = f"the one of {file_of[name]} is kept"
                findings.append(warning("source", name, f"stored in {both} with {values}; {kept}"))
                continue
            problems.append(
                source_problem(
                    f"stored in both {both}, with different values",
                    why="two checkpoints were mixed, or an overlay was written beside its base",
                    do="remove one of them, or say source.on_duplicate: keep-indexed",
                    subject=name,
                )
            )
    raise_any(problems)
    return tensors, file_of, findings


def _metadata(files: Iterable[OpenFile]) -> tuple[dict[str, str], list[Finding]]:
    """The metadata of all the files; where two disagree, the first is kept and that is said."""
    merged: dict[str, str] = {}
    findings = []
    for file in files:
        for key, value in file.contents.metadata.items():
            if merged.setdefault(key, value) != value:
                message = f"metadata {key!r} differs between shards; the first value is kept"
                findings.append(warning("source", file.source.name, message))
    return merged, findings


def _held_against(chosen: Found, twin: Layout, wanted: Wanted) -> Finding:
    """Compare with pickles of the same weights; where they were not fetched, that is said."""
    missing = [name for name in twin.files if not (chosen.root / name).is_file()]
    if missing:
        message = f"not compared with {chosen.layout.label}: {missing[0]} is not here"
        return info("source", twin.label, message)
    return _compare_twin(chosen, _open(chosen.root, twin, wanted))


def _compare_twin(chosen: Found, twin: Found) -> Finding:
    """Safetensors beside pickles must hold the same values: equal ones are said, others are exit 3."""
    common = [name for name in chosen.checkpoint if name in twin.checkpoint]
    different = [
        name
        for name in common
        if not same_values(chosen.checkpoint[name].tensor, twin.checkpoint[name].tensor)
    ]
    if different or not common:
        listed = ", ".join(different[:5]) or "no common names"
        raise UserError(
            source_problem(
                f"{chosen.layout.label} and {twin.layout.label} hold different weights: {listed}",
                why="one of them was replaced without the other",
                do="name the right one in source.files",
                subject=str(chosen.root),
            )
        )
    message = f"{twin.layout.label} holds the same values for {len(common)} names; it is not read"
    return info("source", chosen.layout.label, message)


def _unreadable(path: Path, error: OSError) -> Problem:
    return exhausted_problem(error) or source_problem(
        f"this cannot be read: {error.strerror or error}",
        why="it has no read permission, its name is too long, or the disk under it fails",
        do="make it readable, or correct source.path",
        subject=str(error.filename or path),
    )


def _empty(root: Path, layout: Layout) -> Problem:
    return source_problem(
        "there is no tensor in it",
        why="it was written without weights, or by a run that failed",
        do="fetch it again, or name the file that holds the weights in source.files",
        subject=str(root / layout.label),
    )
