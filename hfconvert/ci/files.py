"""The files by which a step hands outputs and a summary to GitHub's runner."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hfconvert.errors import Problem, UserError, exhausted_problem, recipe_problem
from hfconvert.visible import one_line

MOST_SUMMARY = 1 << 20  # bytes of a step's summary: of a longer one nothing is shown
_CUT = "\n\nThe rest is left out: a summary holds 1 MiB. The report has it all.\n"


def write_outputs(environment: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    """Append to the file of GITHUB_OUTPUT, if any: no value can end early or begin another output.

    UserError (exit 2) where it cannot be written, here and below.
    """
    _append(environment, "GITHUB_OUTPUT", _bytes("".join(map(_output, outputs.items()))))


def write_summary(environment: Mapping[str, str], text: str) -> None:
    """Append to the file of GITHUB_STEP_SUMMARY, if any; cut so that the file stays below 1 MiB."""
    taken = 0
    with suppress(OSError):  # there is none yet; where there cannot be any, it is told below
        taken = Path(environment.get("GITHUB_STEP_SUMMARY", "")).stat().st_size
    _append(environment, "GITHUB_STEP_SUMMARY", cut(text, MOST_SUMMARY - 1 - taken))


def cut(text: str, most: int) -> bytes:
    """The text as UTF-8 of at most so many bytes, cut at the end of a line, and said so."""
    data = _bytes(text)
    if len(data) <= most:
        return data
    room = most - len(_CUT)
    return data[: data.rfind(b"\n", 0, room)] + _CUT.encode() if room > 0 else b""


def _output(item: tuple[str, str]) -> str:
    name, value = item
    end = f"end-{secrets.token_hex(16)}"
    return f"{name}<<{end}\n{value}\n{end}\n"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", errors="backslashreplace")


def _append(environment: Mapping[str, str], variable: str, data: bytes) -> None:
    name = environment.get(variable)
    if not name:
        return
    try:
        with Path(name).open("ab") as file:
            file.write(data)
    except OSError as error:
        raise UserError(unusable(variable, name, error)) from error


def unusable(variable: str, name: str, error: OSError) -> Problem:
    """A file or folder that the environment names cannot be written (exit 2; 5 where the disk is full)."""
    return exhausted_problem(error) or recipe_problem(
        f"{one_line(name)!r} cannot be written: {error.strerror}",
        why="GitHub's runner makes it before a step; the variable was set to something else",
        do=f"leave {variable} as the runner sets it",
        subject=variable,
    )
