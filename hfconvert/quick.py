"""`hfconvert inspect WHAT [--json] [-v] [-q]`, read without the library that reads all other command lines.

Loading that takes longer than looking at a checkpoint of gigabytes. Any other form of the command, a mistake
or `--help` among them, is left to `cli`, which has the same command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hfconvert.console import Console
from hfconvert.edge import answer
from hfconvert.errors import Exit
from hfconvert.inspect.facts import failed_document, inspect_files
from hfconvert.inspect.text import inspect_text
from hfconvert.sourcing import list_what

_FLAGS = {
    "--json": "json",
    "-v": "verbose",
    "--verbose": "verbose",
    "-q": "quiet",
    "--quiet": "quiet",
}


def is_quick(arguments: Sequence[str]) -> bool:
    """Whether the arguments are `inspect`, one thing to look at, and flags that are known."""
    if not arguments or arguments[0] != "inspect":
        return False
    rest = [one for one in arguments[1:] if one not in _FLAGS]
    return len(rest) == 1 and bool(rest[0]) and not rest[0].startswith("-")


def inspect(what: str, console: Console) -> Exit:
    """Answer `inspect`; the exit code."""

    def act() -> tuple[Mapping[str, Any], str, Exit]:
        document = inspect_files(list_what(what))
        return document, inspect_text(document), Exit.OK

    return answer(console, act, failed_document)


def inspect_quickly(arguments: Sequence[str]) -> Exit:
    """Answer arguments that `is_quick` says yes to."""
    flags = {_FLAGS[one] for one in arguments if one in _FLAGS}
    (what,) = (one for one in arguments[1:] if one not in _FLAGS)
    verbosity = -1 if "quiet" in flags else int("verbose" in flags)
    return inspect(what, Console(verbosity=verbosity, as_json="json" in flags))
