"""Listing a large checkpoint, and taking the weights out of a training checkpoint three times their size.

python -m tests.benchmarks.listing [--bytes 3000000000] [--times 9] [--pairs 3] [--workdir DIR] [--json]
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

import numpy as np

from tests.benchmarks.checkpoints import (
    Weight,
    llama_weights,
    training_pickle,
    write_torch_zip,
)
from tests.benchmarks.output import make_parser, open_workdir, show
from tests.benchmarks.recipes import write_recipe
from tests.benchmarks.timing import hfconvert, measure, measure_pairs, summarize


def main() -> None:
    """Must reach: listing under 0.3 s and 60 MB; weights out at most as slow as a conversion, 80 MB."""
    parser = make_parser("Listing a checkpoint, and weights out of a training checkpoint.")
    parser.add_argument("--bytes", type=int, default=3_000_000_000)
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    with open_workdir(arguments.workdir) as work:
        training, model = write_both(work, arguments.bytes)
        figures = {
            "source_bytes": training.stat().st_size,
            "listing": _listing(training, arguments.times),
            "weights_out": _weights_out(work, model, training, arguments.pairs),
        }
    show("listing, and weights out of a training checkpoint", figures, as_json=arguments.json)


def write_both(work: Path, size: int) -> tuple[Path, Path]:
    """A training checkpoint of about `size` bytes, and the same kind of model alone: a third of that."""
    (work / "training").mkdir()
    (work / "model").mkdir()
    training, model = work / "training" / "last.ckpt", work / "model" / "pytorch_model.bin"
    weights = list(llama_weights(size // 3))
    moments = [Weight(name, one.shape) for one in weights for name in ("exp_avg", "exp_avg_sq")]
    generator = np.random.default_rng(0)
    everything = [*weights, *moments]
    write_torch_zip(training, everything, generator, training_pickle(everything))
    write_torch_zip(model, weights, generator)
    return training, model


def _listing(file: Path, times: int) -> dict[str, object]:
    runs = [measure(hfconvert("inspect", str(file))) for _ in range(times)]
    return {
        "median_seconds": round(median(run.seconds for run in runs), 3),
        "least_cpu_seconds": round(min(run.cpu_seconds for run in runs), 3),
        "peak_memory_bytes": max(run.peak_bytes for run in runs),
    }


def _weights_out(work: Path, model: Path, training: Path, pairs: int) -> dict[str, object]:
    """A conversion of the model alone, then of the training checkpoint, in turns."""
    recipes = {}
    for name, source in (("model", model.parent), ("training", training)):
        (work / f"recipe-{name}").mkdir()
        recipes[name] = str(write_recipe(work / f"recipe-{name}", source))
    return summarize(
        measure_pairs(
            pairs,
            work,
            lambda into: hfconvert("run", recipes["model"], "--output", str(into), "-q"),
            lambda into: hfconvert("run", recipes["training"], "--output", str(into), "-q"),
        )
    )


if __name__ == "__main__":
    main()
