"""A process that proves one type after the other: a name a line on stdin, an answer a line on stdout.

The memory that it may have is bounded, so that no type takes the machine's.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import OFFLINE
from tests.zoo import round_trips
from tests.zoo.classes import NotBuiltError
from tests.zoo.round_trips import Proof
from tests.zoo.tiny import build

MEMORY = 10 << 30  # bytes of addresses; what is resident stays far below
PROOFS: dict[str, Callable[[Any, Path], Proof]] = {
    "convert": round_trips.convert,
    "merge": round_trips.merge,
}


def main(name: str) -> None:
    """Answer until stdin ends; what libraries print goes nowhere."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    for line in sys.stdin:
        answers.write(json.dumps(answer(line.strip(), PROOFS[name])) + "\n")
        answers.flush()


def answer(kind: str, proof: Callable[[Any, Path], Proof]) -> dict[str, Any]:
    """What became of a type: `not_built`, or `why` (empty: it came through), `near` and `alone`.

    `alone` says, of a type that did not come through, why its class fails without hfconvert as well.
    """
    folder = Path(tempfile.mkdtemp(prefix="zoo-"))
    try:
        model = build(kind)
        found = _tried(proof, model, folder)
        alone = _tried(round_trips.by_itself, build(kind), folder).why if found.why else ""
    except NotBuiltError as error:
        return {"not_built": str(error)}
    finally:
        shutil.rmtree(folder)
    return {"why": found.why, "near": found.near, "alone": alone}


def _tried(proof: Callable[[Any, Path], Proof], model: Any, folder: Path) -> Proof:
    try:
        return proof(model, folder)
    except NotBuiltError:
        raise
    except Exception as error:  # noqa: BLE001 - one type that breaks is one line of the figure
        return Proof(f"{type(error).__name__}: {' '.join(str(error).split())}")


if __name__ == "__main__":
    os.environ.update(OFFLINE)
    main(sys.argv[1])
