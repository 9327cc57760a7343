"""Runs commands of hfconvert in children of this process, and does to each what it is told: a test's helper.

Each line on stdin is a JSON object: `arguments`, `cwd`, and what is to happen at the act with number `at`.
An act is a call of a function of `os` that changes the disk. Each answer is a line on stdout.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hfconvert import cli, run
from hfconvert.inspect import facts
from hfconvert.making import make as making
from hfconvert.report import documents, text

PRELOADED = (facts, documents, run, text)  # so that a child imports nothing
ACTS = ("pwrite", "fsync", "rename", "mkdir", "unlink", "rmdir")
WRITES = ("pwrite", "fsync")


class Acts:
    """Counts acts; lets the one with number `at` be the last, or fail, or be interrupted."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.at: int = order.get("at", -1)
        self.what: str = order.get("what", "nothing")
        self.count = 0
        self.writes = 0
        self._lock = threading.Lock()

    def wrap(self, name: str) -> None:
        """Put this in the way of a function of `os`."""
        real: Callable[..., Any] = getattr(os, name)

        def act(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                number, self.count = self.count, self.count + 1
                self.writes += name == "pwrite"
                self._before(name, number, real, arguments)
            try:
                return real(*arguments, **options)
            finally:
                if self.what == "kill-after" and number == self.at:
                    os.kill(os.getpid(), signal.SIGKILL)

        setattr(os, name, act)

    def _before(self, name: str, number: int, real: Callable[..., Any], arguments: Any) -> None:
        if self.what == "full" and number >= self.at and name in WRITES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if number != self.at:
            return
        if self.what == "kill-torn" and name == "pwrite":
            descriptor, view, offset = arguments
            real(descriptor, view[: len(view) // 2], offset)
        if self.what.startswith("kill") and self.what != "kill-after":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.what in {"SIGTERM", "SIGINT", "SIGHUP"}:
            os.kill(os.getpid(), getattr(signal, self.what))


def child(order: dict[str, Any], report: int) -> None:
    """Do one command; never returns."""
    os.chdir(order["cwd"])
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), stream)
    if "limit" in order:  # bytes that a file may have
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["limit"], order["limit"]))
    if order.get("blind"):
        for module, name in ((making, "check_space"), (run, "check_room")):
            setattr(module, name, lambda *_: None)  # as if another filled the disk
    acts = Acts(order)
    for name in ACTS:
        acts.wrap(name)
    sys.argv = ["hfconvert", *order["arguments"]]
    code = 99
    try:
        code = cli.main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        answer = {"code": int(code), "acts": acts.count, "writes": acts.writes}
        os.write(report, json.dumps(answer).encode())
        os._exit(0)


def main() -> None:
    """Answer orders until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for line in sys.stdin:
        order = json.loads(line)
        read, write = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(read)
            child(order, write)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(process, 0)
        answer = json.loads(said) if said else {"code": None, "acts": None, "writes": None}
        folder = Path(order["cwd"])
        answer["signal"] = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        answer["stdout"] = (folder / "stdout").read_text(encoding="utf-8")
        answer["stderr"] = (folder / "stderr").read_text(encoding="utf-8")
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
