"""The facts of a folder or file, as the JSON document of `hfconvert inspect`.

It answers wherever it can: what would stop a conversion is a problem in the document, not an error.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hfconvert.decide import decide
from hfconvert.errors import Problem, UserError, source_problem
from hfconvert.findings import Finding
from hfconvert.inspect.roles import Role, library_of, role_of, wrappers_in
from hfconvert.keymap.applied import Applied
from hfconvert.readers.config import read_config
from hfconvert.readers.contents import Contents, PickleFacts
from hfconvert.readers.formats import read_file
from hfconvert.readers.layout import Layout, find_layouts
from hfconvert.report.documents import findings_document, pickle_documents
from hfconvert.tensors.checkpoint import found
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.source import LocalFile


@dataclass(frozen=True, slots=True)
class Seen:
    """A file that was looked at: what it holds, or None and the problems of reading it."""

    file: LocalFile
    role: Role
    contents: Contents | None
    problems: tuple[Problem, ...] = ()


def inspect(what: str) -> dict[str, Any]:
    """The document of `hfconvert inspect --json`. UserError only where there is nothing to look at."""
    path = Path(what)
    if not path.exists():
        raise UserError(
            source_problem(
                "there is no such file or folder",
                why="the path is misspelt, or a repository is meant, which is not built yet",
                do="name a folder or a file",
                subject=what,
            )
        )
    root = path if path.is_dir() else path.parent
    names = _names(path)
    layout, problems = _layout(root, names)
    seen = [_look(root, name, layout) for name in names]
    problems += [problem for one in seen for problem in one.problems]
    problems += [
        problem
        for one in seen
        if one.role == "weights" and one.contents and one.contents.refusal
        for problem in one.contents.refusal.problems
    ]
    findings = [finding for one in seen if one.contents for finding in one.contents.findings]
    return _document(root, seen, [problem.finding() for problem in problems] + findings)


def failed_document(error: UserError) -> dict[str, Any]:
    """The document where there was nothing to look at."""
    problems = [problem.finding() for problem in error.problems]
    return _document(Path(), [], problems)


def _names(path: Path) -> list[str]:
    if path.is_file():
        return [path.name]
    return sorted(
        Path(folder, name).relative_to(path).as_posix()
        for folder, folders, files in os.walk(path)
        for name in files
        if not _hidden(folders)
    )


def _hidden(folders: list[str]) -> bool:
    """Leave hidden folders out of the walk; never true."""
    folders[:] = [name for name in folders if not name.startswith(".")]
    return False


def _layout(root: Path, names: Iterable[str]) -> tuple[Layout | None, list[Problem]]:
    try:
        layouts = find_layouts(root, [name for name in names if "/" not in name])
    except UserError as error:
        return None, list(error.problems)
    if not layouts:
        return None, []
    missing = [
        source_problem(
            "this file is missing",
            why=f"{layouts[0].label} needs it; a download may have been interrupted",
            do="fetch it again",
            subject=file,
        )
        for file in layouts[0].files
        if not (root / file).is_file()
    ]
    return layouts[0], missing


def _look(root: Path, name: str, layout: Layout | None) -> Seen:
    file = LocalFile.of(root / name, name)
    role = role_of(name, layout)
    if role == "other":
        return Seen(file, role, None)
    try:
        return Seen(file, role, read_file(file, "auto"))
    except UserError as error:
        return Seen(file, role, None, error.problems)


def _document(root: Path, seen: list[Seen], problems: list[Finding]) -> dict[str, Any]:
    weights = [one for one in seen if one.role == "weights" and one.contents]
    tensors = list(_tensors(seen))
    pickles = [
        (one.file.name, one.contents.pickle) for one in seen if one.contents and one.contents.pickle
    ]
    names = [item["name"] for item in tensors if item["role"] == "weights"]
    training = {key: value for one in weights for key, value in _contents(one).facts.items()}
    config = read_config(root) if seen and (root / "config.json").is_file() else None
    return {
        "kind": _kind(tensors, training, names),
        "format": _contents(weights[0]).format if weights else None,
        "library": library_of(root) if seen else None,
        "files": [_file(one) for one in seen],
        "tensors": [{key: item[key] for key in item if key != "elements"} for item in tensors],
        "totals": _totals(tensors),
        "metadata": {
            key: value for one in weights for key, value in _contents(one).metadata.items()
        },
        "ties": _ties(weights, config),
        "weights": _sets(weights),
        "wrappers": wrappers_in(names),
        "training": training or None,
        "lora": None,
        "pickle": pickle_documents(pickles),
        "lazy": all(_contents(one).lazy for one in weights),
        "safe": _safe(facts for _, facts in pickles),
        "problems": findings_document(problems),
        "advice": None,
    }


def _contents(one: Seen) -> Contents:
    if one.contents is None:
        raise AssertionError("only files that were read are asked")
    return one.contents


def _file(one: Seen) -> dict[str, Any]:
    container = one.contents.container if one.contents else None
    return {
        "file": one.file.name,
        "size": one.file.size,
        "format": container,
        "role": one.role,
    }


def _tensors(seen: Iterable[Seen]) -> Iterator[dict[str, Any]]:
    """Every tensor of every role, as the document lists them, and its count of elements."""
    for one in seen:
        contents = one.contents
        if contents is None:
            continue
        prefixed = len(contents.sets) > 1
        for weights in contents.sets:
            for name, tensor in weights.tensors.items():
                full = f"{weights.name}.{name}" if prefixed and weights.name else name
                yield _tensor(full, tensor.spec, one.file.name, one.role)
        for other in contents.others:
            yield _tensor(other.name, other.spec, one.file.name, other.role)


def _tensor(name: str, spec: TensorSpec, file: str, role: str) -> dict[str, Any]:
    return {
        "name": name,
        "dtype": spec.dtype.code,
        "shape": list(spec.shape),
        "bytes": spec.nbytes,
        "file": file,
        "role": role,
        "elements": spec.elements,
    }


def _totals(tensors: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    by_dtype: Counter[str] = Counter()
    by_role: Counter[str] = Counter({"weights": 0, "optimizer": 0, "other": 0})
    count = parameters = 0
    for item in tensors:
        by_role[item["role"]] += item["bytes"]
        count += 1
        if item["role"] == "weights":
            by_dtype[item["dtype"]] += item["bytes"]
            parameters += item["elements"]
    return {
        "tensors": count,
        "parameters": parameters,
        "bytes": sum(by_role.values()),
        "by_dtype": dict(by_dtype),
        "by_role": dict(by_role),
    }


def _sets(weights: Iterable[Seen]) -> list[dict[str, Any]]:
    """The sets of weights over all files: name, tensors and bytes."""
    counts: Counter[str] = Counter()
    nbytes: Counter[str] = Counter()
    for one in weights:
        for part in _contents(one).sets:
            counts[part.name] += len(part.tensors)
            nbytes[part.name] += part.nbytes
    return [
        {"name": name, "tensors": count, "bytes": nbytes[name]} for name, count in counts.items()
    ]


def _ties(weights: Iterable[Seen], config: Mapping[str, Any] | None) -> list[dict[str, str]]:
    tensors = {
        name: tensor
        for one in weights
        for part in _contents(one).sets[:1]
        for name, tensor in part.tensors.items()
    }
    ties = decide(Applied(found(tensors)), config).ties
    return [{"kept": tie.kept, "dropped": tie.dropped} for tie in ties]


def _safe(pickles: Iterable[PickleFacts]) -> bool:
    return all(item.verdict == "inert" for facts in pickles for item in facts.imports)


def _kind(tensors: list[dict[str, Any]], training: Mapping[str, Any], names: list[str]) -> str:
    roles = {item["role"] for item in tensors}
    if not names:
        return "training" if "optimizer" in roles else "unknown"
    lora = [name for name in names if ".lora_" in name or name.startswith("lora_")]
    if lora:
        return "adapter" if len(lora) == len(names) else "mixed"
    quantized = (".qweight", ".SCB", ".absmax", ".quant_map", ".qzeros")
    if any(name.endswith(quantized) for name in names):
        return "quantized"
    return "training" if "optimizer" in roles or training else "model"
