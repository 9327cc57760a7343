"""`inspect WHAT` and `plan RECIPE`, with plain flags, read without the library for all other command lines.

Loading that takes longer than looking at a checkpoint of gigabytes. Any other form of the two commands, a
mistake or `--help` among them, is left to `cli`, which calls the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hfconvert.console import Console
from hfconvert.edge import answer
from hfconvert.errors import Exit

_FLAGS = {
    "--json": "json",
    "-v": "verbose",
    "--verbose": "verbose",
    "-q": "quiet",
    "--quiet": "quiet",
}


def is_quick(arguments: Sequence[str]) -> bool:
    """Whether the arguments are `inspect` or `plan`, one thing to look at, and flags that are known."""
    if not arguments or arguments[0] not in _COMMANDS:
        return False
    rest = [one for one in arguments[1:] if one not in _FLAGS]
    return len(rest) == 1 and bool(rest[0]) and not rest[0].startswith("-")


def answer_quickly(arguments: Sequence[str]) -> Exit:
    """Answer arguments that `is_quick` says yes to."""
    flags = {_FLAGS[one] for one in arguments if one in _FLAGS}
    (what,) = (one for one in arguments[1:] if one not in _FLAGS)
    verbosity = -1 if "quiet" in flags else int("verbose" in flags)
    return _COMMANDS[arguments[0]](what, Console(verbosity=verbosity, as_json="json" in flags))


def inspect(what: str, console: Console) -> Exit:
    """Answer `inspect`; the exit code."""
    from hfconvert.inspect.facts import failed_document, inspect_files  # noqa: PLC0415
    from hfconvert.inspect.text import inspect_text  # noqa: PLC0415
    from hfconvert.sourcing import list_what  # noqa: PLC0415

    def act() -> tuple[Mapping[str, Any], str, Exit]:
        document = inspect_files(list_what(what))
        return document, inspect_text(document), Exit.OK

    return answer(console, act, failed_document)


def plan(
    recipe: str, console: Console, overrides: Sequence[str] = (), output: Path | None = None
) -> Exit:
    """Answer `plan`; the exit code."""
    from hfconvert.preview import plan as make  # noqa: PLC0415
    from hfconvert.recipes import recipe_of  # noqa: PLC0415
    from hfconvert.report.documents import failed_plan_document, plan_document  # noqa: PLC0415
    from hfconvert.report.text import plan_text  # noqa: PLC0415

    def act() -> tuple[Mapping[str, Any], str, Exit]:
        made = make(recipe_of(recipe, tuple(overrides), output))
        return plan_document(made), plan_text(made), Exit.OK

    return answer(console, act, failed_plan_document)


_COMMANDS: Mapping[str, Callable[[str, Console], Exit]] = {"inspect": inspect, "plan": plan}
