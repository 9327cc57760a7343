"""Everything that can go wrong for a user, with its exit code.

One exception, `UserError`, carries every problem found at once. A problem has three beats: what happened
(with file, tensor or `recipe.yaml:12:7`), the likely cause, and what to do. It is caught at the edge only.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from hfconvert.findings import Finding
from hfconvert.visible import one_line

_LACKING = {
    errno.EMFILE: "open files",
    errno.ENFILE: "open files",
    errno.ENOMEM: "memory",
    errno.ENOSPC: "room on the disk",
    errno.EDQUOT: "room on the disk",
}
_SHOWN = 80  # characters of a name that is too long


class Exit(IntEnum):
    """Exit codes of every command; part of the contract."""

    OK = 0
    VALUES = 1  # shows once values are read: a failed check, a difference, an overflow
    RECIPE = 2  # editing the recipe or the command line mends it
    SOURCE = 3  # only another source or adapter mends it
    HUB = 4  # the Hub said no or could not be reached
    RESOURCES = 5  # not enough disk or memory
    BULK = 6  # some repositories of a bulk run failed
    BUG = 70  # a bug of hfconvert
    INTERRUPTED = 130  # SIGINT, SIGTERM or SIGHUP


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One reason to stop: `what` happened, `why` probably, what to `do`.

    `subject` is the file, tensor or position that it is about, and leads the message when it is set.
    """

    exit: Exit
    check: str
    subject: str
    what: str
    why: str
    do: str

    def __str__(self) -> str:
        head = f"{self.subject}: {self.what}" if self.subject else self.what
        beats = [one_line(head)]
        if self.why:
            beats.append(one_line(f"  why: {self.why}"))
        if self.do:
            beats.append(f"  do:  {self.do}")
        return "\n".join(beats)

    def finding(self) -> Finding:
        """The problem as a finding of level `error`."""
        message = f"{self.what} ({self.why})" if self.why else self.what
        return Finding(
            level="error", check=self.check, subject=self.subject, message=message, hint=self.do
        )


class UserError(Exception):
    """One or more problems that a user can meet; never a bug of ours."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems

    @property
    def exit(self) -> Exit:
        """The exit code: where several apply, the highest of 3, 2, 1; codes above 3 win over those."""
        return max(problem.exit for problem in self.problems)


def values_problem(what: str, *, why: str, do: str, subject: str = "", check: str) -> Problem:
    """What shows once values are read (exit 1)."""
    return Problem(exit=Exit.VALUES, check=check, subject=subject, what=what, why=why, do=do)


def recipe_problem(
    what: str, *, why: str, do: str, subject: str = "", check: str = "recipe"
) -> Problem:
    """What editing the recipe or the command line mends (exit 2)."""
    return Problem(exit=Exit.RECIPE, check=check, subject=subject, what=what, why=why, do=do)


def source_problem(
    what: str, *, why: str, do: str, subject: str = "", check: str = "source"
) -> Problem:
    """What only another source or adapter mends (exit 3)."""
    return Problem(exit=Exit.SOURCE, check=check, subject=subject, what=what, why=why, do=do)


def resource_problem(
    what: str, *, why: str, do: str, subject: str = "", check: str = "resources"
) -> Problem:
    """Not enough disk or memory (exit 5)."""
    return Problem(exit=Exit.RESOURCES, check=check, subject=subject, what=what, why=why, do=do)


def unreadable_problem(path: object, error: OSError) -> Problem:
    """A file or folder of the source that the system does not let us read (exit 3), or lacks means to (5).

    `path` is what was asked for; where the error names a file itself, that is the subject.
    """
    return exhausted_problem(error) or source_problem(
        f"this cannot be read: {error.strerror or error}",
        why="it has no read permission, its name is too long, or the disk under it fails",
        do="make it readable, or take it out of the source",
        subject=str(error.filename or path),
    )


def exhausted_problem(error: BaseException) -> Problem | None:
    """What the system has no more of, memory, threads, files or room (exit 5); None for other errors."""
    lacking = _LACKING.get(error.errno or 0) if isinstance(error, OSError) else None
    if isinstance(error, MemoryError):
        lacking = "memory"
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        lacking = "threads"
    if lacking is None:
        return None
    return resource_problem(
        f"the system gives no more {lacking}: {str(error) or type(error).__name__}",
        why="a limit of this process is low (`ulimit -a`), or other programs take what there is",
        do="raise the limit, or end other programs; then run again",
    )


def overlong_problem(error: BaseException) -> Problem | None:
    """A name that is longer than that of a file can be (exit 2); None for other errors."""
    if not isinstance(error, OSError) or error.errno != errno.ENAMETOOLONG:
        return None
    name = str(error.filename)
    return recipe_problem(
        "a name is too long for this system",
        why=f"a part of it has more than 255 bytes, or all of it, {len(name)} characters, more than 4095",
        do="choose a shorter one",
        subject=name if len(name) <= _SHOWN else f"{name[:_SHOWN]}...",
    )


def foreseen(error: Exception) -> UserError:
    """The error as one that a user can meet. Any other is a bug of ours, and raised again as it is."""
    if isinstance(error, UserError):
        return error
    told = exhausted_problem(error) or overlong_problem(error)
    if told is None:
        raise error
    return UserError(told)


def raise_any(problems: Iterable[Problem]) -> None:
    """Raise all the problems at once; return when there are none."""
    found = tuple(problems)
    if found:
        raise UserError(*found)
