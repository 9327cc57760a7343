"""The facts of a folder or file, as the JSON document of `hfconvert inspect`.

It answers wherever it can: what would stop a conversion is a problem in the document, not an error. Headers
and pickles are read, tensors never.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hfconvert.errors import UserError
from hfconvert.findings import Finding, warning
from hfconvert.inspect.adapter import adapter_facts
from hfconvert.inspect.folders import Chosen, choose_folders, placed
from hfconvert.inspect.kinds import kind_of
from hfconvert.inspect.listing import Listing, list_files, printable
from hfconvert.inspect.look import Seen, look
from hfconvert.inspect.roles import library_of, wrappers_in
from hfconvert.inspect.tensors import (
    listed_sets,
    listed_tensors,
    listed_ties,
    model_tensors,
    totals,
)
from hfconvert.inspect.training import training_facts
from hfconvert.readers.config import read_config
from hfconvert.readers.index import check_index
from hfconvert.readers.templates import template_findings
from hfconvert.report.pickles import pickle_documents
from hfconvert.tensors.lazy import LazyTensor

MAX_OPENED = 4000  # files; the largest models have some hundreds
_LEVELS = ("error", "warning", "info")


def inspect(what: str) -> dict[str, Any]:
    """The document of a folder or file. UserError only where there is nothing to look at."""
    return inspect_files(list_files(Path(what)))


def inspect_files(listing: Listing) -> dict[str, Any]:
    """The document of `hfconvert inspect --json`."""
    alone = listing.alone
    chosen = choose_folders(listing.root, listing.names)
    seen = _look_at_all(listing, chosen, alone=alone)
    findings = [
        *(problem.finding() for problem in chosen.problems if not alone),
        *_said(listing, seen),
        *(chosen.findings if not alone else ()),
        *_index_findings(chosen, seen, alone=alone),
    ]
    config, broken = _config(listing.root, {folder for folder, _ in chosen.layouts} | {""})
    return _document(listing.root, chosen, seen, [*findings, *broken], config)


def failed_document(error: UserError) -> dict[str, Any]:
    """The document where there was nothing to look at."""
    problems = [problem.finding() for problem in error.problems]
    return _document(None, Chosen((), {}, (), ()), [], problems, None)


def _look_at_all(listing: Listing, chosen: Chosen, *, alone: bool) -> list[Seen]:
    """All files, weights first: of the others not more are opened than any real folder has."""
    weights = chosen.weights
    seen: dict[str, Seen] = {}
    opened = 0
    for file in sorted(listing.files, key=lambda file: file.name not in weights):
        is_weights = alone or file.name in weights
        if opened >= MAX_OPENED:
            seen[file.name] = Seen(file=file, role="other", format=None, note="not looked at")
            continue
        one = look(
            file.apart(), is_weights=is_weights, alone=alone, aside=chosen.aside.get(file.name, "")
        )
        opened += one.contents is not None
        seen[file.name] = one
    return [seen[file.name] for file in listing.files]


def _said(listing: Listing, seen: list[Seen]) -> Iterator[Finding]:
    yield from listing.findings
    yield from template_findings((file.name, file.path) for file in listing.files)
    for one in seen:
        yield from (problem.finding() for problem in one.problems)
        yield from one.findings
    if any(one.note == "not looked at" for one in seen):
        told = f"more than {MAX_OPENED} files would have to be opened; the rest was not looked at"
        yield warning("files", "", told)
    if not any(one.role == "weights" for one in seen):
        yield warning("source", "", "no weights were found here")


def _index_findings(chosen: Chosen, seen: list[Seen], *, alone: bool) -> Iterator[Finding]:
    """Where an index and the headers of its shards disagree."""
    by_name = {one.file.name: one.contents for one in seen if one.contents}
    for folder, layout in chosen.layouts if not alone else ():
        held = {
            file: contents.sets[0].tensors if contents.sets else {}
            for file in layout.files
            if (contents := by_name.get(placed(folder, file)))
        }
        if layout.index is None or len(held) < len(layout.files):
            continue
        try:
            yield from check_index(layout.index, held)
        except UserError as error:
            yield from (problem.finding() for problem in error.problems[:20])


def _config(root: Path, folders: Iterable[str]) -> tuple[Mapping[str, Any] | None, list[Finding]]:
    """The configuration beside the weights; a broken one is a finding."""
    for folder in sorted(folders):
        try:
            found = read_config(root / folder)
        except UserError as error:
            return None, [problem.finding() for problem in error.problems]
        if found is not None:
            return found, []
    return None, []


def _document(
    root: Path | None,
    chosen: Chosen,
    seen: list[Seen],
    findings: list[Finding],
    config: Mapping[str, Any] | None,
) -> dict[str, Any]:
    weights = [one for one in seen if one.role == "weights" and one.contents]
    tensors = listed_tensors(seen)
    model = model_tensors(seen)
    ties = listed_ties(model)
    training = training_facts(seen)
    kind = kind_of(model, training, config)
    pickles = [(printable(one.file.name), one.pickle) for one in seen if one.pickle]
    return {
        "kind": kind,
        "format": next((one.contents.format for one in weights if one.contents), None),
        "library": library_of(root) if root and seen else None,
        "files": [_file(one) for one in seen],
        "tensors": tensors,
        "totals": totals(tensors, model, ties),
        "metadata": _metadata(weights),
        "ties": ties,
        "weights": listed_sets(seen),
        "wrappers": wrappers_in(model),
        "training": training,
        "lora": _lora(root, chosen, model) if kind in ("adapter", "mixed") else None,
        "pickle": pickle_documents(pickles),
        "lazy": all(one.contents.lazy for one in weights if one.contents),
        "safe": all(item.verdict == "inert" for _, facts in pickles for item in facts.imports),
        "problems": _problems(findings),
        "advice": None,
    }


def _file(one: Seen) -> dict[str, Any]:
    return {
        "file": printable(one.file.name),
        "size": one.file.size,
        "format": one.format,
        "role": one.role,
        "note": printable(one.note),
    }


def _metadata(weights: Iterable[Seen]) -> dict[str, str]:
    """That of all the files; the first that says something of a key counts."""
    found: dict[str, str] = {}
    for one in weights:
        for key, value in one.contents.metadata.items() if one.contents else ():
            found.setdefault(key, value)
    return found


def _lora(
    root: Path | None, chosen: Chosen, model: Mapping[str, LazyTensor]
) -> dict[str, Any] | None:
    if root is None:
        return None
    folders = [*(folder for folder, _ in chosen.layouts), ""]
    return adapter_facts(root, folders, model)


def _problems(findings: Iterable[Finding]) -> list[dict[str, str]]:
    """Findings as the document has them: errors first, each once."""
    found = dict.fromkeys(
        replace(one, subject=printable(one.subject), message=printable(one.message))
        for one in findings
    )
    return [one.as_json() for level in _LEVELS for one in found if one.level == level]
