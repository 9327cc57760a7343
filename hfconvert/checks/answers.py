"""The other end of `isolated`: the one table of questions, and the process that answers one of them."""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hfconvert.checks.architecture.model import fit
from hfconvert.checks.logits.compare import compare_sides
from hfconvert.machine import peak_memory_bytes, versions

Answer = Callable[[Mapping[str, Any]], dict[str, Any]]

ANSWERS: Mapping[str, Answer] = {"architecture": fit, "logits": compare_sides}

# Nothing that is asked for here may reach the network, and no bot may be asked to convert a repository.
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "DISABLE_SAFETENSORS_CONVERSION": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def answer(question: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer as a JSON value; `{"harness": why}` where the libraries could not give one."""
    with _quiet():
        try:
            answered = ANSWERS[question](request)
        except MemoryError:
            return {"harness": "there is not enough memory"}
        except Exception as error:  # noqa: BLE001 - models raise anything, and none of it is about weights
            return {"harness": f"{type(error).__name__}: {_first_line(error)}"}
    return {**answered, "versions": versions(), "peak_memory_bytes": peak_memory_bytes()}


def main() -> None:
    """Answer the question on stdin by one line on stdout."""
    os.environ.update(_OFFLINE)
    document = json.load(sys.stdin)
    sys.stdout.write("\n" + json.dumps(answer(document["question"], document["request"])) + "\n")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings and logs of the libraries: what matters is in the answer."""
    before = logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        try:
            yield
        finally:
            logging.disable(before)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else "no message"
