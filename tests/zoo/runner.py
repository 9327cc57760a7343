"""Many types, proved by a few processes side by side; one that hangs or dies costs its own type only."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

BOUND = 180  # seconds for a type, then its process is ended; the first one also imports torch
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a type; `not_built` says why there is no model to prove anything of.

    `why` it did not come through, empty where it did; `near` counts tensors that are equal within the bound
    and not bit for bit; `alone` is why the class fails without hfconvert too.
    """

    kind: str
    not_built: str = ""
    why: str = ""
    near: int = 0
    alone: str = ""


def prove(kinds: Sequence[str], proof: str, workers: int = 2) -> list[Answer]:
    """The answers of all the types, by name. `proof`: one of `worker.PROOFS`."""
    waiting: SimpleQueue[str] = SimpleQueue()
    for kind in kinds:
        waiting.put(kind)
    with ThreadPoolExecutor(workers) as pool:
        done = [pool.submit(lambda: list(_drain(waiting, proof))) for _ in range(workers)]
    answers = [answer for one in done for answer in one.result()]
    return sorted(answers, key=lambda answer: answer.kind)


def _drain(waiting: SimpleQueue[str], proof: str) -> Iterator[Answer]:
    """Take type after type; a process that ended is followed by another."""
    process: subprocess.Popen[str] | None = None
    try:
        while True:
            kind = waiting.get_nowait()
            process = process if process and process.poll() is None else _start(proof)
            yield Answer(kind, **_asked(process, kind))
    except Empty:
        return
    finally:
        if process:
            process.kill()
            process.communicate()


def _start(proof: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.zoo.worker", proof],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def _asked(process: subprocess.Popen[str], kind: str) -> Mapping[str, Any]:
    """The answer of a process; that it took too long or ended is an answer too."""
    if process.stdin is None or process.stdout is None:
        raise AssertionError("both are pipes")
    timer = threading.Timer(BOUND, process.kill)
    timer.start()
    try:
        process.stdin.write(f"{kind}\n")
        process.stdin.flush()
        line = process.stdout.readline()
    finally:
        timer.cancel()
    if line:
        answer: dict[str, Any] = json.loads(line)
        return answer
    code = process.wait()
    return {"why": f"its process ended with {code}, or was ended after {BOUND} s"}
