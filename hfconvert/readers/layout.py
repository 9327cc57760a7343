"""Which files of a folder are its weights.

Safetensors before pickles, an index before a single file, names that loaders look for before others; one
layout only is read, and what is left aside is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from hfconvert.errors import Problem, UserError, raise_any, recipe_problem, source_problem
from hfconvert.findings import Finding, info, warning
from hfconvert.readers.index import SUFFIX, Index, read_index
from hfconvert.readers.torch_sniff import DAMAGED, HEAD, recognize

Family = Literal["safetensors", "torch"]

FAMILIES: dict[str, Family] = {
    ".safetensors": "safetensors",
    ".bin": "torch",
    ".pt": "torch",
    ".pth": "torch",
    ".ckpt": "torch",
}
# Names that loaders look for, in the order in which they are preferred.
CONVENTIONAL = (
    "model",
    "pytorch_model",
    "diffusion_pytorch_model",
    "adapter_model",
    "open_clip_model",
    "open_clip_pytorch_model",
)
# Files of a training run that are no weights, whatever their ending.
NO_WEIGHTS = (
    "training_args.bin",
    "optimizer*",
    "scheduler*",
    "rng_state*",
    "random_states*",
    "scaler*",
    "*.onnx",
    "tokenizer*",
)
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5,})-of-(?P<count>\d{5,})$")


@dataclass(frozen=True, slots=True)
class Layout:
    """Weight files that belong together: the stem of their names, the files, the index that governs them.

    `foreign` says what a file is whose name is that of a checkpoint, and whose first bytes are not.
    """

    stem: str
    family: Family
    files: tuple[str, ...]
    index: Index | None = None
    foreign: str = ""

    @property
    def label(self) -> str:
        """How messages call it."""
        if self.index:
            return self.index.file
        return (
            self.files[0] if len(self.files) == 1 else f"{self.files[0]} and the rest of its shards"
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """The layout to read, the pickles that should hold the same values (or None), and what to say of it."""

    layout: Layout
    twin: Layout | None
    findings: tuple[Finding, ...]


def choose(
    root: Path, patterns: Sequence[str] | None, where: str, elsewhere: Iterable[str] = ()
) -> Choice:
    """Choose the weight files of a folder; `patterns` are the globs of `source.files`, at `where`."""
    here = {path.name for path in root.iterdir() if path.is_file()}
    names = sorted(here.union(name for name in elsewhere if "/" not in name))
    if patterns is not None:
        return _chosen_by_name(root, names, patterns, where)
    layouts = find_layouts(root, names)
    if not layouts:
        raise UserError(_nothing(root, names))
    best = layouts[0]
    rivals = rivals_of(layouts)
    if rivals:
        listed = ", ".join(layout.label for layout in (best, *rivals))
        raise UserError(
            recipe_problem(
                f"several files could be the weights: {listed}",
                why="no index and no name that loaders look for tells them apart",
                do="name the right ones in source.files",
                subject=str(root),
            )
        )
    others = layouts[1:]
    twin = next((other for other in others if _twins(best, other)), None)
    return Choice(best, twin, tuple(_left_aside(best, twin, others)))


def find_layouts(root: Path, names: Iterable[str]) -> list[Layout]:
    """All the layouts in a folder, the preferred one first. UserError (exit 3) for an index that is none."""
    known = list(names)
    layouts = [_indexed(root, name) for name in known if name.endswith(SUFFIX) and _family_of(name)]
    claimed = {file for layout in layouts for file in layout.files}
    groups: dict[tuple[str, str], list[str]] = {}
    for name in known:
        family = _family_of(name)
        if not family or name in claimed or name.endswith(SUFFIX):
            continue
        shard = _SHARD.match(Path(name).stem)
        groups.setdefault((shard["stem"] if shard else "", Path(name).suffix), []).append(name)
    for (stem, suffix), files in groups.items():
        if stem:
            layouts.append(Layout(stem, FAMILIES[suffix], _complete(stem, suffix, files)))
        else:
            layouts += [_alone(root, file) for file in files]
    return sorted(layouts, key=lambda layout: (_rank(layout), layout.stem))


def rivals_of(layouts: Sequence[Layout]) -> list[Layout]:
    """The layouts that nothing tells apart from the first: it takes a choice between them."""
    return [other for other in layouts[1:] if _rank(other) == _rank(layouts[0])]


def _indexed(root: Path, name: str) -> Layout:
    index = read_index(root, name)
    inner = Path(name.removesuffix(SUFFIX))
    return Layout(inner.stem, FAMILIES[inner.suffix], index.shards, index)


def _alone(root: Path, file: str) -> Layout:
    path = root / file
    return Layout(path.stem, FAMILIES[path.suffix], (file,), foreign=_foreign(path))


def _foreign(path: Path) -> str:
    """What the file is, where its first bytes are those of another program's format; else nothing."""
    try:
        with path.open("rb") as file:
            found = recognize(file.read(HEAD))
    except OSError:
        return ""
    return found.told if found and found.known and found.code not in DAMAGED else ""


def _family_of(name: str) -> Family | None:
    if any(fnmatchcase(name, pattern) for pattern in NO_WEIGHTS):
        return None
    return FAMILIES.get(Path(name.removesuffix(SUFFIX)).suffix)


def _complete(stem: str, suffix: str, files: list[str]) -> tuple[str, ...]:
    """The shards that the numbers in their names promise; those that are absent are found when opened."""
    count = max(int(match["count"]) for file in files if (match := _SHARD.match(Path(file).stem)))
    width = len(_SHARD.match(Path(files[0]).stem)["number"])  # type: ignore[index]  # all matched above
    if count > 100_000:
        return tuple(files)
    return tuple(f"{stem}-{i:0{width}}-of-{count:0{width}}{suffix}" for i in range(1, count + 1))


def _rank(layout: Layout) -> tuple[bool, bool, int, bool]:
    place = CONVENTIONAL.index(layout.stem) if layout.stem in CONVENTIONAL else len(CONVENTIONAL)
    return (bool(layout.foreign), layout.family != "safetensors", place, layout.index is None)


def _twins(best: Layout, other: Layout) -> bool:
    """Whether these pickles are by convention the same weights as those safetensors."""
    if best.family != "safetensors" or other.family != "torch" or other.foreign:
        return False
    same = {"model": "pytorch_model", "open_clip_model": "open_clip_pytorch_model"}
    return other.stem in (best.stem, same.get(best.stem))


def _left_aside(best: Layout, twin: Layout | None, others: Iterable[Layout]) -> Iterable[Finding]:
    for other in others:
        if other is twin:
            continue
        if other.foreign and not best.foreign:
            yield info("source", other.label, f"left aside: it is {other.foreign}")
        elif other.family == best.family and other.stem == best.stem:
            yield warning(
                "source",
                other.label,
                f"left aside: {best.label} governs the weights of this folder",
                "remove it from the source: transformers would read it instead of the shards",
            )
        else:
            yield info(
                "source",
                other.label,
                f"left aside: {best.label} is read",
                "name it in source.files to read it instead",
            )


def _chosen_by_name(root: Path, names: list[str], patterns: Sequence[str], where: str) -> Choice:
    """What the recipe names: an index with or without its shards, or files that are read as they are."""
    raise_any(
        _unmatched(f"{pattern!r} matches no file of {root}", names, where)
        for pattern in patterns
        if not any(fnmatchcase(name, pattern) for name in names)
    )
    wanted = [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
    files = tuple(name for name in wanted if not name.endswith(".json"))
    indexes = [name for name in wanted if name.endswith(SUFFIX) and _family_of(name)]
    if len(indexes) == 1:
        layout = _indexed(root, indexes[0])
        if set(files) <= set(layout.files):
            return Choice(layout, None, ())
    if not files:
        raise UserError(_unmatched(f"{', '.join(wanted)} is no file of weights", names, where))
    shard = _SHARD.match(Path(files[0]).stem)
    stem = shard["stem"] if shard else Path(files[0]).stem if len(files) == 1 else "model"
    return Choice(Layout(stem, FAMILIES.get(Path(files[0]).suffix, "torch"), files), None, ())


def _unmatched(what: str, names: Sequence[str], where: str) -> Problem:
    return recipe_problem(
        f"source.files: {what}",
        why="the name is misspelt, or the file is in another folder",
        do=f"the folder holds: {', '.join(names[:20]) or 'nothing'}",
        subject=where,
    )


def _nothing(root: Path, names: list[str]) -> Problem:
    below = _folders_with_weights(root)
    if below:
        return source_problem(
            "no weights were found in this folder itself",
            why=f"folders in it hold some: {', '.join(below[:10])}",
            do="name one of them, or choose it with source.subfolder",
            subject=str(root),
        )
    return source_problem(
        "no weights were found in this folder",
        why="no file has the ending of a checkpoint" if names else "the folder is empty",
        do=f"name the files in source.files; the folder holds: {', '.join(names[:20]) or 'nothing'}",
        subject=str(root),
    )


def _folders_with_weights(root: Path) -> list[str]:
    """Folders right below that hold files with the endings of weights."""
    return sorted(
        folder.name
        for folder in root.iterdir()
        if not folder.name.startswith(".") and folder.is_dir()
        if any(_family_of(path.name) for path in folder.iterdir())
    )
