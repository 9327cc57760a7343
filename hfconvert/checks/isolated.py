"""Questions to torch and transformers, answered by a process of their own.

torch costs hundreds of megabytes and seconds, and can end its process: a run that converts files stays small
and alive beside it. Where torch is loaded already (a library or a test that uses hfconvert) the question is
answered on the spot. Questions and answers are JSON values.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

NEEDED = ("torch", "transformers")
# Variables that hold what others must not learn. A model's own code, where that is allowed, runs in the
# process that answers, and needs none of them.
_SECRET = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|CREDENTIALS?|KEY)(_|$)|^HF_OIDC_")


class HarnessError(Exception):
    """The question could not be answered, for a reason that is no fault of the weights."""


def missing_libraries() -> tuple[str, ...]:
    """Which of the libraries that models need are not installed; imports none of them."""
    return tuple(name for name in NEEDED if sys.modules.get(name) is None and not find_spec(name))


def ask(question: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a question of `answers.ANSWERS`. HarnessError where there is none."""
    if "torch" in sys.modules:
        from hfconvert.checks.answers import answer  # noqa: PLC0415 - only those who ask need it

        return _unpacked(answer(question, request))
    return _unpacked(_by_child({"question": question, "request": request}))


def _by_child(document: Mapping[str, Any]) -> dict[str, Any]:
    # The path of modules is ours: the working directory, which may hold anything, is not on it.
    script = (
        f"import sys; sys.path[:] = {sys.path!r}; from hfconvert.checks.answers import main; main()"
    )
    child = subprocess.run(  # noqa: S603 - our own interpreter and our own module
        [sys.executable, "-c", script],
        input=json.dumps(document).encode(),
        env={name: value for name, value in os.environ.items() if not _SECRET.search(name)},
        capture_output=True,
        check=False,
    )
    lines = child.stdout.splitlines()
    if child.returncode or not lines:
        said = child.stderr.decode(errors="replace").strip().splitlines()
        raise HarnessError(_how_it_ended(child.returncode, said[-1] if said else ""))
    answered: dict[str, Any] = json.loads(lines[-1])
    return answered


def _unpacked(answered: dict[str, Any]) -> dict[str, Any]:
    if "harness" in answered:
        raise HarnessError(str(answered["harness"]))
    return answered


def _how_it_ended(code: int, said: str) -> str:
    if code < 0:
        hint = "; it may have run out of memory" if code == -9 else ""
        return f"the process that held the model was ended by signal {-code}{hint}"
    return f"the process that held the model ended with code {code}: {said}"
