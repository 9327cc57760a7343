"""The rules that headers and pickles decide: safetensors are there, pickles are inert, indexes are right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from hfconvert.errors import Problem, UserError, source_problem
from hfconvert.findings import Finding, warning
from hfconvert.gate.tree import Tree, WeightSet
from hfconvert.inspect.listing import printable
from hfconvert.inspect.look import Seen
from hfconvert.inspect.roles import may_be_pickle
from hfconvert.keymap.fold import listed
from hfconvert.pickles.values import Verdict
from hfconvert.readers.index import check_index

# Files that hold weights in pickles, and that are not read yet.
_NOT_READ = {
    ".nemo": "an archive of NeMo",
    ".distcp": "a part of a checkpoint of torch.distributed",
    ".mar": "an archive of TorchServe",
}
_PACKED = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".npz")


def nothing(tree: Tree) -> Iterator[Problem]:
    """A tree without weights: rules over nothing are no pass."""
    if not tree.pickled and not tree.safetensors:
        root = printable(str(tree.root))
        yield _unjudged(root, "no weights were found here", "it is another folder, or empty")


def unread(tree: Tree) -> Iterator[Problem]:
    """What could not be looked at, so that nothing can be said of it: never a pass."""
    for said in tree.listing.findings:
        yield _unjudged(said.subject, said.message, said.hint)
    for one in tree.seen.values():
        told = _NOT_READ.get(PurePosixPath(one.file.name).suffix)
        if told:
            yield _unjudged(
                printable(one.file.name), f"it is {told}", "such files are not read yet"
            )
        if one.contents is None and one.role != "other":
            yield from one.problems
        elif one.contents is None and may_be_pickle(one.file.name):
            yield from (_unjudged(said.subject, said.message, "") for said in one.findings)


def packed(tree: Tree) -> Iterator[Finding]:
    """Archives, which hold anything: they are not looked into, and that is said."""
    names = [
        printable(name)
        for name, one in tree.seen.items()
        if one.contents is None and name.endswith(_PACKED)
    ]
    if names:
        told = f"archives are not looked into: {listed(names)}"
        yield warning("readable", "", told, "publish what they hold as it is, or judge it apart")


def pickles_only(tree: Tree, pickled: Sequence[WeightSet]) -> Iterator[Problem]:
    """Folders that have these weights in pickles and none in safetensors."""
    safe = {one.folder for one in tree.safetensors}
    for folder in dict.fromkeys(one.folder for one in pickled):
        if folder not in safe:
            first, *others = (one.label for one in pickled if one.folder == folder)
            yield source_problem(
                f"weights are published as pickles only{_and_so(others)}",
                why="no safetensors were made of them, or they were not committed",
                do="convert them with `hfconvert run`, and publish the result beside them or instead",
                subject=first,
                check="format",
            )


def imports(tree: Tree) -> Iterator[Problem]:
    """Pickles that ask for dangerous names, whatever they hold and are called."""
    for names, files in _who_asks(tree, "dangerous"):
        yield source_problem(
            f"its pickle asks for dangerous names: {listed(names)}{_and_so(files[1:])}",
            why="opened by an ordinary loader, this file would run code; here nothing was run",
            do="remove the file from what is published, or save its tensors alone",
            subject=files[0],
            check="pickle",
        )


def unknown_imports(tree: Tree) -> Iterator[Finding]:
    """Pickles that ask for names of which nothing is known, as the settings of a training run do."""
    for names, files in _who_asks(tree, "unknown"):
        yield warning(
            "pickle",
            files[0],
            f"its pickle asks for unknown names: {listed(names)}{_and_so(files[1:])}",
            "a loader that obeys would import them; save tensors alone, or publish without the file",
        )


def _who_asks(tree: Tree, verdict: Verdict) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Names of a verdict, with the files that ask for just these."""
    asked: dict[tuple[str, ...], list[str]] = {}
    for one in tree.seen.values():
        if names := _asked(one, verdict):
            asked.setdefault(names, []).append(printable(one.file.name))
    yield from asked.items()


def indexes(tree: Tree) -> tuple[tuple[Problem, ...], tuple[Finding, ...]]:
    """Safetensors whose index is stale, wrong or absent, and files that loaders read in its place."""
    problems: list[Problem] = list(tree.broken)
    findings: list[Finding] = []
    for one in tree.sets:
        problems += _absent(one)
    for one in tree.safetensors:
        problems += _strays(one, tree.safetensors)
        if one.layout.index is None or one.missing:
            continue
        held = {
            name: seen.contents.sets[0].tensors if seen.contents and seen.contents.sets else {}
            for name, seen in zip(one.layout.files, one.files, strict=True)
        }
        try:
            findings += check_index(one.layout.index, held)
        except UserError as error:
            problems += error.problems
    return tuple(problems), tuple(findings)


def _and_so(others: Sequence[str]) -> str:
    return f"; so with {listed(others)}" if others else ""


def _asked(one: Seen, verdict: Verdict) -> tuple[str, ...]:
    facts = one.pickle.imports if one.pickle else ()
    return tuple(
        printable(f"{item.module}.{item.name}") for item in facts if item.verdict == verdict
    )


def _absent(one: WeightSet) -> Iterator[Problem]:
    """Shards that were promised; and of safetensors an index, which should promise them."""
    if one.missing:
        yield source_problem(
            f"shards are missing: {listed(map(printable, one.missing))}",
            why="they were not committed, or the index was written for other shards",
            do="publish index and shards of one conversion",
            subject=one.label,
            check="index",
        )
    if one.is_safetensors and one.layout.index is None and len(one.layout.files) > 1:
        yield source_problem(
            "these shards have no index",
            why="it was not committed; loaders find shards by their index alone",
            do="publish the index that was written with them",
            subject=one.label,
            check="index",
        )


def _strays(one: WeightSet, sets: Iterable[WeightSet]) -> Iterator[Problem]:
    """Other files of the same name without an index beside those with one."""
    if one.layout.index is None:
        return
    for other in sets:
        same = (other.folder, other.layout.stem) == (one.folder, one.layout.stem)
        if other is not one and same:
            yield source_problem(
                f"it lies beside {one.label}, and loaders read it instead",
                why="it is left from another conversion",
                do="remove it, or the shards and their index",
                subject=other.label,
                check="index",
            )


def _unjudged(subject: str, what: str, why: str) -> Problem:
    return source_problem(
        f"this could not be judged: {what}",
        why=why or "it is damaged, or is no file of the kind that its name says",
        do="name a folder, file or repository with whole files",
        subject=subject,
        check="readable",
    )
