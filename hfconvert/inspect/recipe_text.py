"""The recipe that `hfconvert init` writes: YAML with a comment for every choice."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from hfconvert.inspect.propose import Line, Proposal
from hfconvert.recipe import Location

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*\Z")
_REASON_AT = 44  # the column of reasons


def recipe_text(what: Location, proposal: Proposal, folder: Path) -> str:
    """The recipe for what was inspected, to be stored in `folder`: relative paths start there."""
    return "\n".join(_lines(what, proposal, folder)) + "\n"


def _lines(what: Location, proposal: Proposal, folder: Path) -> Iterator[str]:
    yield f"# hfconvert init {what}"
    yield f"# found: {_one_line(proposal.found)}"
    yield "# It runs as it is. Lines behind # are alternatives: read the reason, then choose."
    yield "version: 1"
    yield "source:"
    yield f"  {_place(what, folder)}"
    yield from _written(proposal.source, "  ")
    yield from _key_map(proposal.key_map)
    yield from _written(proposal.dtype, "")
    yield from _written(proposal.rest, "")
    yield "output:"
    yield from _written([Line("max_shard_size: 5GB")], "  ")
    yield "validate:"
    yield from _written(
        [
            Line("tensors: full", "every value is compared with the source"),
            Line("reference: org/model", "whose names the result must have", alternative=True),
        ],
        "  ",
    )


def _place(what: Location, folder: Path) -> str:
    if what.repo is not None:
        revision = f"\n  revision: {_quoted(what.revision)}" if what.revision else ""
        return f"repo: {what.repo}{revision}"
    path = (what.path or Path()).absolute()
    relative = os.path.relpath(path, folder.absolute())
    shown = path.as_posix() if relative.startswith("..") else f"./{Path(relative).as_posix()}"
    return f"path: {_quoted(shown)}"


def _key_map(lines: Sequence[Line]) -> Iterator[str]:
    """The steps; the heading is a comment too where all of them are."""
    if not lines:
        return
    yield "key_map:" if any(not line.alternative for line in lines) else "# key_map:"
    yield from _written(lines, "  ")


def _written(lines: Sequence[Line], indent: str) -> Iterator[str]:
    for line in lines:
        text = f"{indent}# {line.text}" if line.alternative else f"{indent}{line.text}"
        reason = f"  # {_one_line(line.reason)}" if line.reason else ""
        yield f"{text:<{_REASON_AT}}{reason}" if reason else text


def _quoted(text: str) -> str:
    return text if _PLAIN.match(text) else json.dumps(text, ensure_ascii=False)


def _one_line(text: str) -> str:
    """Text from a file as a comment: on one line, with nothing that acts on a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
