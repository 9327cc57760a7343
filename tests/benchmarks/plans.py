"""Time and memory of plans of the largest models, from headers over sparse files: nothing else is read.

python -m tests.benchmarks.plans [--times 5] [--workdir DIR] [--json]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.output import make_parser, open_workdir, show
from tests.benchmarks.timing import hfconvert, measure

Shapes = dict[str, tuple[int, ...]]
SHARD = 5_000_000_000  # bytes
QKV = [f"model.layers.{{i}}.self_attn.{name}_proj.weight" for name in "qkv"]
MAPS: Mapping[str, list[dict[str, Any]]] = {
    "70B": [
        {"permute_rope": {"names": [QKV[0]], "heads": 64, "to": "interleaved"}},
        {"permute_rope": {"names": [QKV[1]], "heads": 8, "to": "interleaved"}},
        {
            "qkv": {
                "from": QKV,
                "into": "layers.{i}.wqkv.weight",
                "layout": "interleaved",
                "heads": 64,
                "kv_heads": 8,
            }
        },
        {"transpose": ["*.down_proj.weight"]},
    ],
    "671B": [
        {"rename": {"model.layers.{i}.*": "decoder.layers.{i}.*"}},
        {"family": {"name": "moe-stacked"}},
    ],
}


def main() -> None:
    """Must reach: 5 s and 300 MB each."""
    parser = make_parser("Plans of the largest models.")
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    with open_workdir(arguments.workdir) as work:
        figures = {}
        for name, shapes in {"70B": _dense(), "671B": _experts()}.items():
            _write_sparse(work / name, shapes)
            recipe = {"version": 1, "source": {"path": name}, "key_map": MAPS[name]}
            file = work / f"{name}.yaml"
            file.write_text(json.dumps(recipe))
            runs = [measure(hfconvert("plan", str(file))) for _ in range(arguments.times)]
            figures[name] = {
                "tensors": len(shapes),
                "median_seconds": round(median(run.seconds for run in runs), 3),
                "peak_memory_bytes": max(run.peak_bytes for run in runs),
            }
    show("plans", figures, as_json=arguments.json)


def _dense() -> Shapes:
    shapes: Shapes = {"model.embed_tokens.weight": (128256, 8192)}
    for layer in range(80):
        base = f"model.layers.{layer}"
        rows = {"q": 8192, "k": 1024, "v": 1024, "o": 8192}
        shapes |= {f"{base}.self_attn.{name}_proj.weight": (n, 8192) for name, n in rows.items()}
        shapes |= {f"{base}.mlp.{name}_proj.weight": (28672, 8192) for name in ("gate", "up")}
        shapes |= {f"{base}.mlp.down_proj.weight": (8192, 28672)}
        shapes |= {f"{base}.input_layernorm.weight": (8192,)}
    return {**shapes, "model.norm.weight": (8192,), "lm_head.weight": (128256, 8192)}


def _experts() -> Shapes:
    hidden = 7168
    attention: Shapes = {
        "q_a_proj": (1536, hidden),
        "q_b_proj": (24576, 1536),
        "kv_a_proj_with_mqa": (576, hidden),
        "kv_b_proj": (32768, 512),
        "o_proj": (hidden, 16384),
    }
    shapes: Shapes = {"model.embed_tokens.weight": (129280, hidden)}
    for layer in range(61):
        base = f"model.layers.{layer}"
        shapes |= {f"{base}.self_attn.{name}.weight": one for name, one in attention.items()}
        for module in [f"experts.{n}" for n in range(256)] if layer > 2 else ["dense"]:
            name = f"{base}.mlp.{module}"
            shapes |= {f"{name}.{part}_proj.weight": (2048, hidden) for part in ("gate", "up")}
            shapes |= {f"{name}.down_proj.weight": (hidden, 2048)}
    return {**shapes, "lm_head.weight": (129280, hidden)}


def _write_sparse(folder: Path, shapes: Shapes) -> None:
    """Shards with an index, as transformers names them: headers, and holes where values would be."""
    folder.mkdir()
    shards = list(_shards(shapes))
    weight_map = {}
    for number, names in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        header, end = {}, 0
        for name in names:
            start, end = end, end + _nbytes(shapes[name])
            header[name] = {
                "dtype": "BF16",
                "shape": shapes[name],
                "data_offsets": [start, end],
            }
            weight_map[name] = file
        text = json.dumps(header).encode()
        with (folder / file).open("wb") as target:
            target.write(len(text).to_bytes(8, "little") + text)
            target.truncate(8 + len(text) + end)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _shards(shapes: Shapes) -> Iterator[list[str]]:
    names: list[str] = []
    size = 0
    for name, shape in shapes.items():
        if names and size + _nbytes(shape) > SHARD:
            yield names
            names, size = [], 0
        names.append(name)
        size += _nbytes(shape)
    yield names


def _nbytes(shape: tuple[int, ...]) -> int:
    return 2 * prod(shape)


if __name__ == "__main__":
    main()
