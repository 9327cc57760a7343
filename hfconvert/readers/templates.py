"""Chat templates beside the weights: never rendered here, and named where they reach beyond a conversation.

A template is a Jinja program that loaders render. One that asks for an object's class, its globals or its
code is on its way out of the sandbox; no template of a model needs that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from hfconvert.findings import Finding, warning

MAX_TEMPLATE = 4 << 20  # bytes; templates have some thousands
_FILES = (
    "*tokenizer_config.json",
    "*processor_config.json",
    "chat_template.json",
    "chat_template.jinja",
    "additional_chat_templates/*.jinja",
)
# Attributes that lead from any object to Python's own, plainly or by the filter `attr` or a subscript.
_REACHES = re.compile(
    r"__(?:class|base|bases|mro|subclasses|globals|builtins|import|init|code|dict|getattribute|loader)__"
    r"|\b(?:lipsum|cycler|joiner)\s*\."
    r"|\bself\s*\._TemplateReference"
)


def template_findings(files: Iterable[tuple[str, Path]]) -> Iterator[Finding]:
    """A warning for every file (its place, where it lies) whose template reaches for Python's internals."""
    for name, path in files:
        if not any(fnmatchcase(name, pattern) for pattern in _FILES):
            continue
        found = _REACHES.search(_text(path))
        if found:
            told = f"its chat template asks for `{found[0]}`: rendered without a sandbox it could run code"
            yield warning("files", name, told, "do not publish it; it is copied as it is")


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_TEMPLATE).decode("utf-8", "replace")
    except OSError:
        return ""
