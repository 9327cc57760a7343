"""The facts of a folder or file for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hfconvert.keymap.fold import fold
from hfconvert.report.sizes import counted, human

_MOST_LINES = 40


def inspect_text(document: Mapping[str, Any]) -> str:
    """What `hfconvert inspect` says on a terminal."""
    return "\n".join(_lines(document))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    totals = document["totals"]
    library = f" for {document['library']}" if document["library"] else ""
    yield f"{document['kind']}, {document['format'] or 'no weights found'}{library}"
    yield (
        f"  {counted(totals['tensors'], 'tensor')}, {totals['parameters']:,} parameters, "
        f"{human(totals['bytes'])}"
    )
    for code, nbytes in totals["by_dtype"].items():
        yield f"  {code:8} {human(nbytes)}"
    for file in document["files"]:
        form = f"  {file['format']}" if file["format"] else ""
        yield f"  {file['role']:9} {file['file']}  {human(file['size'])}{form}"
    for part in document["weights"][1:] and document["weights"]:
        size = human(part["bytes"])
        yield f"  set {part['name'] or '(top)'}: {counted(part['tensors'], 'tensor')}, {size}"
    yield from _tensor_lines(document)
    yield from (f"  tie {tie['dropped']} is {tie['kept']}" for tie in document["ties"])
    yield from _notes(document)


def _notes(document: Mapping[str, Any]) -> Iterator[str]:
    """What pickles ask for, what training left, what would stop a conversion."""
    for pickle in document["pickle"]:
        for item in pickle["dangerous"]:
            yield f"  DANGEROUS {pickle['file']} asks for {item['module']}.{item['name']}"
    for key, value in (document["training"] or {}).items():
        yield f"  {key}: {value}"
    for problem in document["problems"]:
        subject = f"{problem['subject']}: " if problem["subject"] else ""
        yield f"  {problem['level']}: {subject}{problem['message']}"


def _tensor_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Tensors folded over layers, by dtype and shape."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for tensor in document["tensors"]:
        if tensor["role"] == "weights":
            shape = ", ".join(map(str, tensor["shape"]))
            kinds.setdefault((tensor["dtype"], shape), []).append(tensor["name"])
    lines = [
        f"  {line}  {dtype} [{shape}]"
        for (dtype, shape), names in kinds.items()
        for line in fold(names)
    ]
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"  ... and {len(lines) - _MOST_LINES} more; --json lists them all"
