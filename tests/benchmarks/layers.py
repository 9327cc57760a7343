"""Logits of two sides of a 2 GB model in bf16, a layer at a time, against both models whole in memory.

    python -m tests.benchmarks.layers [--layers 20] [--pairs 2] [--workdir DIR] [--json]

The model is drawn at a standard deviation of 0.02, the candidate is a copy of it: what is compared is how the
figures are come by, and they are checked. Both ways compute in float32.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from statistics import median

import numpy as np

from tests.benchmarks.merge import FEED, HIDDEN, KV, VOCABULARY, write_base
from tests.benchmarks.output import make_parser, open_workdir, show
from tests.benchmarks.timing import measure_pairs, summarize

LIMIT = 2_200_000_000  # bytes that the layers may take
PLENTY = 1 << 40
HEAD = 64
BLOCK = 8 << 20
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def main() -> None:
    """Must reach: peak at most 2.2 GB, at most twice the time of both models in memory."""
    parser = make_parser("Logits a layer at a time against both models in memory.")
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=2)
    arguments = parser.parse_args()
    os.environ.update(dict.fromkeys(OFFLINE, "1"))
    with open_workdir(arguments.workdir) as work:
        write_model(work / "source", arguments.layers)
        shutil.copytree(work / "source", work / "candidate")
        size = sum(file.stat().st_size for file in (work / "source").glob("*.safetensors"))
        pairs = measure_pairs(
            arguments.pairs,
            work,
            lambda _: question(work, "whole", PLENTY),
            lambda _: question(work, "layers", LIMIT),
        )
        check_answers(work)
    whole = [pair.yardstick for pair in pairs]
    figures = {
        "source_bytes": size,
        "whole_seconds": round(median(one.seconds for one in whole), 1),
        "whole_peak_bytes": max(one.peak_bytes for one in whole),
        **summarize(pairs),
    }
    show("logits a layer at a time / both models in memory", figures, as_json=arguments.json)


def write_model(folder: Path, layers: int) -> None:
    """A llama whose layers are those of TinyLlama, in bf16."""
    write_base(folder, layers, np.random.default_rng(0))
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_size": HIDDEN, "intermediate_size": FEED, "vocab_size": VOCABULARY}
    config |= {"num_hidden_layers": layers, "num_attention_heads": HIDDEN // HEAD}
    config |= {"num_key_value_heads": KV // HEAD}
    (folder / "config.json").write_text(json.dumps(config))


def question(work: Path, way: str, memory: int) -> list[str]:
    """The command line that answers hfconvert's own question with that much memory, into WAY.json."""
    request = {
        "candidate": str(work / "candidate"),
        "reference": str(work / "source"),
        "config": json.loads((work / "source" / "config.json").read_text()),
        "custom": False,
        "prompts": None,
        "adapters": [],
        "memory": memory,
    }
    asked, answered = work / f"{way}-question.json", work / f"{way}.json"
    asked.write_text(json.dumps({"question": "logits", "request": request}))
    warm(work)
    ask = f"{sys.executable} -c 'from hfconvert.checks.answers import main; main()'"
    return ["sh", "-c", f"exec {ask} < {shlex.quote(str(asked))} > {shlex.quote(str(answered))}"]


def warm(work: Path) -> None:
    """Read every file once, so that it lies in the page cache for either way."""
    for file in work.glob("*/*.safetensors"):
        with file.open("rb") as opened:
            while opened.read(BLOCK):
                pass


def check_answers(work: Path) -> None:
    """Both ways ran as they were meant to, and both found two equal models."""
    for way in ("whole", "layers"):
        answer = json.loads((work / f"{way}.json").read_text())
        assert answer.get("by_layer") == (way == "layers"), answer
        assert answer["residual"] < 1e-6, answer["residual"]
        assert not answer["missing"], answer["missing"]


if __name__ == "__main__":
    main()
