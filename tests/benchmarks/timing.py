"""Time hfconvert and `cp` on the same bytes, each in a process of its own and into a fresh folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

LAUNCH = Path(__file__).with_name("launch.py")


@dataclass(frozen=True, slots=True)
class Measured:
    """Of a process: wall time from start to end, the most memory that it held, time of the processor."""

    seconds: float
    peak_bytes: int
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs, one straight after the other: the yardstick, then what is measured."""

    yardstick: Measured
    measured: Measured

    @property
    def ratio(self) -> float:
        """How many times longer the measured run took."""
        return self.measured.seconds / self.yardstick.seconds


class CommandError(RuntimeError):
    """A command that had to succeed did not; holds its output."""


def measure(command: Sequence[str]) -> Measured:
    """Run a command that must succeed; raises `CommandError` with what it said when it does not."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        launch = [sys.executable, "-I", "-S", str(LAUNCH), str(result), *command]
        ran = subprocess.run(
            launch, capture_output=True, text=True, check=False, env=_environment()
        )
        if ran.returncode:
            message = f"{' '.join(command)}: exit {ran.returncode}\n{ran.stdout}{ran.stderr}"
            raise CommandError(message)
        figures = json.loads(result.read_text())
    return Measured(figures["seconds"], figures["peak_bytes"], figures["cpu_seconds"])


def _environment() -> dict[str, str]:
    """As an installed command has it: its modules are compiled once, not at every start."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def hfconvert(*arguments: str) -> list[str]:
    """The command line of hfconvert under this interpreter."""
    return [sys.executable, "-m", "hfconvert", *arguments]


def copy(files: Sequence[Path], into: Path) -> list[str]:
    """A command line that copies the bytes (never a reflink) and returns when they are on disk."""
    script = 'mkdir "$0" && cp --reflink=never "$@" "$0" && sync "$0"/* "$0"'
    return ["sh", "-c", script, str(into), *map(str, files)]


def measure_into(folder: Path, command: Callable[[Path], Sequence[str]]) -> Measured:
    """Measure a command that makes a folder, which is removed again, with no writes of others waiting."""
    os.sync()
    try:
        return measure(command(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_pairs(
    count: int,
    workdir: Path,
    yardstick: Callable[[Path], Sequence[str]],
    measured: Callable[[Path], Sequence[str]],
) -> list[Pair]:
    """Alternate the two commands (A B A B), each into a folder that nothing was written to before."""
    pairs = []
    for number in range(1, count + 1):
        pair = Pair(
            yardstick=measure_into(workdir / f"yardstick-{number}", yardstick),
            measured=measure_into(workdir / f"measured-{number}", measured),
        )
        sys.stderr.write(f"pair {number} of {count}: {pair.ratio:.2f}\n")
        pairs.append(pair)
    return pairs


def summarize(pairs: Sequence[Pair]) -> dict[str, object]:
    """Ratios of the pairs, their median, and the highest peak of what was measured."""
    return {
        "pairs": [
            {
                "yardstick_seconds": round(pair.yardstick.seconds, 3),
                "measured_seconds": round(pair.measured.seconds, 3),
                "ratio": round(pair.ratio, 3),
            }
            for pair in pairs
        ],
        "median_ratio": round(median(pair.ratio for pair in pairs), 3),
        "peak_memory_bytes": max(pair.measured.peak_bytes for pair in pairs),
    }
