"""The zoo, by hand: `python -m tests.zoo convert [TYPE ...]`, or `merge` in its place."""

from __future__ import annotations

import sys

from tests.zoo.classes import kinds
from tests.zoo.exceptions import EXPLAINED
from tests.zoo.figures import Figure
from tests.zoo.runner import prove


def main(arguments: list[str]) -> int:
    """Print the figure; 0 where every exception is explained."""
    if not arguments or arguments[0] not in EXPLAINED:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    proof, *chosen = arguments
    figure = Figure(proof, prove(chosen or kinds(), proof), EXPLAINED[proof])
    wrong = figure.wrong()
    sys.stdout.write("\n".join([*figure.lines(), *wrong, ""]))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
