"""fp32 to bf16 against `cp` and fsync of the output's bytes, and what the full check of values costs.

python -m tests.benchmarks.cast [--bytes 4000000000] [--pairs 5] [--workdir DIR] [--json]
"""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.checkpoints import write_checkpoint
from tests.benchmarks.output import make_parser, open_workdir, show
from tests.benchmarks.recipes import write_recipe
from tests.benchmarks.timing import copy, hfconvert, measure, measure_pairs, summarize


def main() -> None:
    """Must reach: 1.3 times cp, peak at most 80 MB; the full check at most 2.2 times the run without."""
    parser = make_parser("fp32 to bf16 against cp and fsync of the output.")
    parser.add_argument("--bytes", type=int, default=4_000_000_000)
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    with open_workdir(arguments.workdir) as work:
        write_checkpoint(work / "source", size=arguments.bytes, shards=4)
        off = write_recipe(work, work / "source", dtype="bfloat16")
        full = write_recipe(work, work / "source", dtype="bfloat16", tensors="full")
        measure(_run(off, work / "cast"))
        files = sorted((work / "cast").glob("*.safetensors"))
        against_copy = measure_pairs(
            arguments.pairs, work, lambda into: copy(files, into), lambda into: _run(off, into)
        )
        against_unchecked = measure_pairs(
            arguments.pairs, work, lambda into: _run(off, into), lambda into: _run(full, into)
        )
        output_bytes = sum(file.stat().st_size for file in files)
    figures = {
        "output_bytes": output_bytes,
        "values not compared / cp + fsync": summarize(against_copy),
        "values compared / not compared": summarize(against_unchecked),
    }
    show("hfconvert run, fp32 to bf16", figures, as_json=arguments.json)


def _run(recipe: Path, into: Path) -> list[str]:
    return hfconvert("run", str(recipe), "--output", str(into), "-q")


if __name__ == "__main__":
    main()
