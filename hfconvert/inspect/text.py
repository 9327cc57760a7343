"""The facts of a folder or file for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hfconvert.keymap.fold import fold
from hfconvert.report.sizes import counted, human
from hfconvert.visible import one_line

_MOST_LINES = 40
_MOST_FILES = 60
_MOST_NAMES = 12
_WIDTH = 100
_KINDS = {
    "model": "a model",
    "training": "a training checkpoint",
    "adapter": "an adapter",
    "quantized": "a quantized model",
    "mixed": "a model with adapter weights in it",
    "unknown": "nothing that can be converted",
}


def inspect_text(document: Mapping[str, Any]) -> str:
    """What `hfconvert inspect` says on a terminal."""
    return "\n".join(map(one_line, _lines(document)))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield from _head(document)
    yield from _titled("files", _files(document["files"]))
    if len(document["weights"]) > 1:
        yield from _titled("sets of weights (source.weights chooses)", _sets(document["weights"]))
    yield from _titled("tensors", _tensors(document["tensors"]))
    yield from _titled("ties", (f"{tie['dropped']} is {tie['kept']}" for tie in document["ties"]))
    yield from _titled("training", _training(document["training"] or {}))
    yield from _titled("adapter", _adapter(document["lora"] or {}))
    yield from _titled("pickles", _pickles(document["pickle"]))
    yield from _titled("to know", _problems(document["problems"]))


def _head(document: Mapping[str, Any]) -> Iterator[str]:
    totals, roles = document["totals"], document["totals"]["by_role"]
    library = f" for {document['library']}" if document["library"] else ""
    form = f", format {document['format']}" if document["format"] else ""
    yield f"{_KINDS[document['kind']]}{library}{form}"
    if roles["weights"] or totals["parameters"]:
        share = ", ".join(f"{code} {human(size)}" for code, size in totals["by_dtype"].items())
        yield f"  {totals['parameters']:,} parameters, {human(roles['weights'])}: {share}"
    rest = [f"{role} {human(roles[role])}" for role in ("optimizer", "other") if roles[role]]
    if rest:
        yield f"  beside them: {', '.join(rest)}"
    if document["wrappers"]:
        yield f"  names carry {', '.join(document['wrappers'])}"
    if not document["lazy"]:
        yield "  it has to be unpacked before it can be read"


def _titled(title: str, lines: Iterable[str]) -> Iterator[str]:
    listed = list(lines)
    if listed:
        yield f"{title}:"
        yield from (f"  {line}" for line in listed)


def _files(files: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Weights first; what a file is stands behind its size."""
    ordered = sorted(files, key=lambda file: file["role"] != "weights")
    names = [file["file"] for file in ordered[:_MOST_FILES]]
    width = min(48, max(map(len, names), default=0))
    for file in ordered[:_MOST_FILES]:
        role = file["role"] if file["role"] != "other" else ""
        told = ", ".join(part for part in (file["format"], file["note"]) if part)
        if file["note"].startswith(("a ", "an ")):  # the format in words
            told = file["note"]
        yield f"{role:9} {file['file']:{width}} {human(file['size']):>8}  {told}".rstrip()
    if len(files) > _MOST_FILES:
        yield f"... and {len(files) - _MOST_FILES} more; --json lists them all"


def _sets(sets: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for part in sets:
        read = "  <- read by default" if part["chosen"] else ""
        name = part["name"] or "(top)"
        yield f"{name}: {counted(part['tensors'], 'tensor')}, {human(part['bytes'])}{read}"


def _tensors(tensors: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The weights, folded over layers, by dtype and shape."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for tensor in tensors:
        if tensor["role"] == "weights":
            shape = ", ".join(map(str, tensor["shape"]))
            kinds.setdefault((tensor["dtype"], shape), []).append(tensor["name"])
    lines = [
        f"{line}  {dtype} [{shape}]"
        for (dtype, shape), names in kinds.items()
        for line in fold(names)
    ]
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"... and {len(lines) - _MOST_LINES} more; --json lists them all"


def _training(facts: Mapping[str, Any]) -> Iterator[str]:
    """Counters one by one; settings, which can be many, as one line each."""
    for key, value in facts.items():
        if key == "optimizer_bytes":
            yield from [f"optimizer: {human(value)}"] if value else []
        elif isinstance(value, Mapping):
            yield f"{key}: {_shortened(f'{name}={one}' for name, one in value.items() if one)}"
        elif value is not None:
            yield f"{key}: {_cut(str(value))}"


def _adapter(facts: Mapping[str, Any]) -> Iterator[str]:
    for key, value in facts.items():
        shown = ", ".join(value) if isinstance(value, list) else value
        if value is not None:
            yield f"{key}: {_cut(str(shown))}"


def _pickles(pickles: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Dangerous names one by one; unknown ones are classes that are read as data."""
    for pickle in pickles:
        for item in pickle["dangerous"]:
            yield f"DANGEROUS: {pickle['file']} asks for {item['module']}.{item['name']}"
        unknown = Counter(
            f"{item['module']}.{item['name']}"
            for item in pickle["imports"]
            if item["verdict"] == "unknown"
        )
        if unknown:
            yield f"{pickle['file']}: unknown classes, read as data: {_shortened(unknown)}"


def _problems(problems: Iterable[Mapping[str, str]]) -> Iterator[str]:
    for problem in problems:
        subject = f"{problem['subject']}: " if problem["subject"] else ""
        yield f"{problem['level']}: {subject}{problem['message']}"
        if problem["hint"] and problem["level"] != "info":
            yield f"  {problem['hint']}"


def _shortened(items: Iterable[str]) -> str:
    """The first items of a list that fit a line or so."""
    listed = list(items)
    shown: list[str] = []
    for item in listed[:_MOST_NAMES]:
        if shown and sum(map(len, shown)) + len(item) > _WIDTH:
            break
        shown.append(_cut(item))
    rest = len(listed) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
