"""Same-dtype conversion of four pickled shards against `cp` and fsync of the same bytes.

python -m tests.benchmarks.same_dtype [--bytes 2000000000] [--pairs 5] [--workdir DIR] [--json]
"""

from __future__ import annotations

from tests.benchmarks.checkpoints import write_checkpoint
from tests.benchmarks.output import make_parser, open_workdir, show
from tests.benchmarks.recipes import write_recipe
from tests.benchmarks.timing import copy, hfconvert, measure_pairs, summarize


def main() -> None:
    """Must reach: median ratio at most 1.25, peak at most 80 MB."""
    parser = make_parser("Same-dtype conversion against cp and fsync.")
    parser.add_argument("--bytes", type=int, default=2_000_000_000)
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    with open_workdir(arguments.workdir) as work:
        files = write_checkpoint(work / "source", size=arguments.bytes, shards=4)
        recipe = write_recipe(work, work / "source")
        pairs = measure_pairs(
            arguments.pairs,
            work,
            lambda into: copy(files, into),
            lambda into: hfconvert("run", str(recipe), "--output", str(into), "-q"),
        )
        source_bytes = sum(file.stat().st_size for file in files)
    figures = {"source_bytes": source_bytes, **summarize(pairs)}
    show(
        "hfconvert run, dtype kept, values not compared / cp + fsync",
        figures,
        as_json=arguments.json,
    )


if __name__ == "__main__":
    main()
