"""Where a command meets its user: what it answers, what it says when it cannot, with which code it exits.

Imports no library that reads command lines: `quick` answers without one.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from hfconvert.console import Console, complain, open_streams, silence
from hfconvert.errors import (
    Exit,
    UserError,
    exhausted_problem,
    foreseen,
    overlong_problem,
    recipe_problem,
)

if TYPE_CHECKING:
    from types import FrameType

Act = Callable[[], tuple[Mapping[str, Any], str, Exit]]
OnFailure = Callable[[UserError], Mapping[str, Any]]


def guarded(command: Callable[[], int]) -> int:
    """The exit code of a whole command; what it does not answer itself is an interruption, or a bug."""
    open_streams()
    signal.signal(signal.SIGTERM, _interrupted)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # under nohup it is ignored, and stays so
        signal.signal(signal.SIGHUP, _interrupted)
    gc.set_threshold(200_000)  # a plan is many small values that live until the end
    try:
        code = command()
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the edge: what is left is a bug of ours
        return _unforeseen(error)
    if code == Exit.INTERRUPTED:
        complain("\ninterrupted: what is complete is kept beside the output; run again to go on\n")
    return code


def answer(
    console: Console, act: Act, on_failure: OnFailure | None, copy_to: Path | None = None
) -> Exit:
    """Act, then put the document or the text where it belongs; the exit code."""
    if copy_to is not None and not os.path.isdir(copy_to.parent):  # noqa: PTH112 - never raises
        return answer(console, partial(_nowhere, copy_to), on_failure)  # not after hours of work
    try:
        document, text, code = act()
    except Exception as error:  # noqa: BLE001 - what is no error of a user passes on
        document, text, code = _failed(console, foreseen(error), on_failure)
    if copy_to is not None and document:
        try:
            _write(copy_to, document)
        except UserError as error:
            _, text, code = _failed(console, error, on_failure)
    if console.as_json and document:
        console.document(document)
    elif text and console.verbosity >= 0:
        console.result(text)
    return code


def _failed(
    console: Console, error: UserError, on_failure: OnFailure | None
) -> tuple[Mapping[str, Any], str, Exit]:
    for problem in error.problems:
        console.problem(problem)
    return (on_failure(error) if on_failure else {}), "", error.exit


def _write(path: Path, document: Mapping[str, Any]) -> None:
    from hfconvert.report.summary import summary  # noqa: PLC0415

    as_text = path.suffix.lower() == ".md"
    text = summary(document) if as_text else json.dumps(document, indent=2) + "\n"
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise _unwritten(path, str(error.strerror)) from error


def _nowhere(path: Path) -> NoReturn:
    raise _unwritten(path, "there is no such folder")


def _unwritten(path: Path, how: str) -> UserError:
    return UserError(
        recipe_problem(
            f"the report cannot be written to {path}: {how}",
            why="its folder does not exist or is read-only",
            do="choose another place with --report",
            subject="--report",
        )
    )


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _unforeseen(error: Exception) -> int:
    """A usage error of the command line (2), or a bug of ours (70) with a log to paste."""
    if (usage := getattr(error, "show", None)) is not None:
        usage()
        return int(getattr(error, "exit_code", Exit.RECIPE))
    if (told := exhausted_problem(error) or overlong_problem(error)) is not None:
        silence(sys.stdout)  # where it was the answer that found no room
        complain(f"error: {told}\n")
        return told.exit
    from hfconvert.machine import versions  # noqa: PLC0415 - only where something went wrong

    log = "".join(traceback.format_exception(error))
    used = ", ".join(f"{name} {number}" for name, number in versions().items())
    complain(
        f"error: this is a bug of hfconvert\n  why: {type(error).__name__}: {error}\n"
        f"  do:  report it with what follows\n--- log ---\n{used}\n{log}--- end ---\n"
    )
    return Exit.BUG
