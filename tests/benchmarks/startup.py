"""Wall time of `--help` and `plan`, and whether torch was imported by either or by a run.

python -m tests.benchmarks.startup [--times 9] [--workdir DIR] [--json]
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median

from tests.benchmarks.checkpoints import write_checkpoint
from tests.benchmarks.output import make_parser, open_workdir, show
from tests.benchmarks.recipes import write_recipe
from tests.benchmarks.timing import CommandError, hfconvert, measure

PROBE = """
import runpy, sys
sys.argv[0] = "hfconvert"
try:
    runpy.run_module("hfconvert", run_name="__main__", alter_sys=True)
except SystemExit as stop:
    if stop.code:
        raise
finally:
    sys.stderr.write(f"\\nmodules {len(sys.modules)} torch {'torch' in sys.modules}\\n")
"""


def main() -> None:
    """Must reach: both under 0.5 s, torch in none."""
    parser = make_parser("Start-up time, and who imports torch.")
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument(
        "--bytes", type=int, default=100_000_000, help="size of the checkpoint planned"
    )
    arguments = parser.parse_args()
    with open_workdir(arguments.workdir) as work:
        write_checkpoint(work / "source", size=arguments.bytes, shards=4)
        recipe = str(write_recipe(work, work / "source"))
        commands = {
            "--help": ["--help"],
            "plan": ["plan", recipe],
            "run": ["run", recipe, "--output", str(work / "output")],
        }
        figures = {
            name: _probe(command) | ({} if name == "run" else _time(command, arguments.times))
            for name, command in commands.items()
        }
    show("start-up", figures, as_json=arguments.json)


def _time(command: list[str], times: int) -> dict[str, object]:
    runs = [measure(hfconvert(*command)) for _ in range(times)]
    return {
        "median_seconds": round(median(run.seconds for run in runs), 3),
        "slowest_seconds": round(max(run.seconds for run in runs), 3),
        "peak_memory_bytes": max(run.peak_bytes for run in runs),
    }


def _probe(command: list[str]) -> dict[str, object]:
    """Run the command in an interpreter that tells at its end what it had imported."""
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, *command],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        message = f"{' '.join(command)}: exit {ran.returncode}\n{ran.stdout}{ran.stderr}"
        raise CommandError(message)
    _, modules, _, torch = ran.stderr.strip().splitlines()[-1].split()
    return {"modules_imported": int(modules), "torch_imported": torch == "True"}


if __name__ == "__main__":
    main()
