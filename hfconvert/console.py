"""The only place that prints: one document on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

from hfconvert.errors import Problem
from hfconvert.findings import Finding
from hfconvert.visible import lines, one_line


class Advance(Protocol):
    """Told how many more bytes are done; may be called from several threads."""

    def __call__(self, nbytes: int, /) -> None:
        """Count these bytes as done."""


@dataclass(frozen=True, slots=True)
class Console:
    """How much a command says: -1 quiet, 0 normal, 1 verbose; `as_json` keeps stdout for one document.

    Without `bars`, lines tell what is done even on a terminal.
    """

    verbosity: int = 0
    as_json: bool = False
    bars: bool = True

    def document(self, document: Mapping[str, Any]) -> None:
        """Put the one JSON document of a command on stdout."""
        self._out(json.dumps(document, indent=2))  # ASCII: right whatever the locale

    def result(self, text: str) -> None:
        """Put the text that a command was asked for on stdout."""
        encoding = sys.stdout.encoding or "utf-8"
        self._out(lines(text).encode(encoding, "backslashreplace").decode(encoding))

    def note(self, text: str) -> None:
        """Say what is going on, unless quiet."""
        if self.verbosity >= 0:
            complain(one_line(text) + "\n")

    def done(self, text: str) -> None:
        """Say that a part is done, where no bar says how far the whole is."""
        if not self._has_bar():
            self.note(text)

    def detail(self, text: str) -> None:
        """Say what only those who asked for it want to know."""
        if self.verbosity >= 1:
            complain(one_line(text) + "\n")

    def finding(self, finding: Finding) -> None:
        """A finding: warnings always, notes when verbose."""
        subject = f"{finding.subject}: " if finding.subject else ""
        hint = f"\n  {finding.hint}" if finding.hint else ""
        text = one_line(f"{finding.level}: {subject}{finding.message}") + hint
        if finding.level != "info" or self.verbosity >= 1:
            self.log(text)

    def problem(self, problem: Problem) -> None:
        """A reason to stop, in three beats; said however quiet."""
        self.log(f"error: {problem}")

    def log(self, text: str) -> None:
        """Put text of several lines on stderr, however quiet."""
        complain(lines(text) + "\n")

    def command(self, line: str) -> None:
        """Give a command to GitHub's runner, behind all that was said before; `hfconvert.ci` made it."""
        sys.stdout.flush()
        complain(line + "\n")

    @contextmanager
    def progress(self, label: str, total: int) -> Iterator[Advance]:
        """Show how many of `total` bytes are done: a bar on a terminal, nothing elsewhere."""
        if not self._has_bar():
            yield lambda _nbytes: None
            return
        with _bar(label, total) as advance:
            yield advance

    def _has_bar(self) -> bool:
        terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        return self.bars and self.verbosity >= 0 and terminal

    def _out(self, text: str) -> None:
        try:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
        except BrokenPipeError:  # whoever read it has enough
            silence(sys.stdout)


def open_streams() -> None:
    """Lead standard streams that the caller closed to nowhere: a file opened later would take their place."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
        if getattr(sys, name) is None:
            mode = "w" if descriptor else "r"
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - a descriptor, for as long as the process lives


def silence(stream: TextIO) -> None:
    """Lead a stream that takes no more to nowhere, or the flush at exit complains again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def complain(text: str) -> None:
    """Put text on stderr; what cannot be said there stops nothing."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


@contextmanager
def _bar(label: str, total: int) -> Iterator[Advance]:
    """A bar of rich, imported here because most runs show none."""
    from rich.console import Console as Terminal
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    lock = threading.Lock()
    with Progress(*columns, console=Terminal(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)

        def advance(nbytes: int, /) -> None:
            with lock:
                progress.advance(task, nbytes)

        yield advance
