"""Merge LoRA of rank 16 on all linear layers of a model of TinyLlama's shape in bf16, against `cp`.

    python -m tests.benchmarks.merge [--layers 22] [--pairs 5] [--workdir FOLDER] [--json]

The base is drawn at a standard deviation of 0.02, as transformers initialises such models; lora_A as PEFT
does, lora_B at a standard deviation of 0.003, as in a light fine-tune.

Besides time and memory it counts, by code of its own, how many weights are off the exact sum in float64 after
two ways of rounding that to bf16: in one step; and as torch, numpy and ml_dtypes do it, by way of float32.
The two differ from each other as well; ADR 0003 says what follows from that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file, save_file

from tests.benchmarks.output import make_parser, open_workdir, show
from tests.benchmarks.timing import Pair, copy, hfconvert, measure, measure_pairs, summarize

HIDDEN, FEED, KV, VOCABULARY, RANK, ALPHA = 2048, 5632, 256, 32000, 16, 32
LINEAR = {
    "self_attn.q_proj": (HIDDEN, HIDDEN),
    "self_attn.k_proj": (KV, HIDDEN),
    "self_attn.v_proj": (KV, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (FEED, HIDDEN),
    "mlp.up_proj": (FEED, HIDDEN),
    "mlp.down_proj": (HIDDEN, FEED),
}
BF16 = np.dtype(ml_dtypes.bfloat16)


def main() -> None:
    """Wanted: 2.5 times cp and the time of `import torch`, 400 MB, 0.0005% of the weights off by a unit."""
    parser = make_parser("Merging LoRA of rank 16 against cp and fsync of the base.")
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    with open_workdir(arguments.workdir) as work:
        base, adapter = work / "base", work / "adapter"
        generator = np.random.default_rng(0)
        write_base(base, arguments.layers, generator)
        write_adapter(adapter, arguments.layers, generator)
        recipe = write_recipe(work, base, adapter)
        files = sorted(base.glob("*.safetensors"))
        pairs = measure_pairs(
            arguments.pairs, work, lambda into: copy(files, into), lambda into: _run(recipe, into)
        )
        measure(_run(recipe, work / "merged"))
        exact = count_units(base, adapter, work / "merged")
    torch = measure([sys.executable, "-c", "import torch"]).seconds
    figures = {
        "merge / cp + fsync": summarize(pairs),
        "beside import torch": {  # which the merge does without
            "seconds": round(torch, 3),
            "median_ratio_beside_it": round(median(_beside(pair, torch) for pair in pairs), 3),
        },
        "against the exact sum": exact,
    }
    show("hfconvert run, LoRA merge", figures, as_json=arguments.json)


def _beside(pair: Pair, seconds: float) -> float:
    """How many times longer the merge took, were these seconds given to it."""
    return (pair.measured.seconds - seconds) / pair.yardstick.seconds


def write_base(folder: Path, layers: int, generator: np.random.Generator) -> None:
    """One file a few layers, as a sharded model has them, with its index and configuration."""
    folder.mkdir()
    parts = [list(_layer(number)) for number in range(layers)]
    ends = [
        ("model.embed_tokens.weight", (VOCABULARY, HIDDEN)),
        ("model.norm.weight", (HIDDEN,)),
        ("lm_head.weight", (VOCABULARY, HIDDEN)),
    ]
    groups = [ends, *(list(chain(*parts[start : start + 6])) for start in range(0, layers, 6))]
    weight_map: dict[str, str] = {}
    for number, group in enumerate(groups, 1):
        file = f"model-{number:05}-of-{len(groups):05}.safetensors"
        state = {name: _normal(generator, shape, 0.02).astype(BF16) for name, shape in group}
        save_file(state, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(state, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))


def write_adapter(folder: Path, layers: int, generator: np.random.Generator) -> None:
    """An adapter as PEFT saves it, in float32."""
    folder.mkdir()
    state = {}
    for number in range(layers):
        for module, (out, inputs) in LINEAR.items():
            front = f"base_model.model.model.layers.{number}.{module}"
            bound = 1 / np.sqrt(inputs)
            a = generator.uniform(-bound, bound, (RANK, inputs))
            state[f"{front}.lora_A.weight"] = a.astype(np.float32)
            state[f"{front}.lora_B.weight"] = _normal(generator, (out, RANK), 0.003)
    save_file(state, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    targets = sorted(module.rpartition(".")[2] for module in LINEAR)
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": targets}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def write_recipe(folder: Path, base: Path, adapter: Path) -> Path:
    """The merge with no check of values."""
    recipe = {
        "version": 1,
        "source": {"path": str(base)},
        "lora": {"adapters": [{"adapter": str(adapter)}]},
        "validate": {"tensors": "off", "architecture": "off", "logits": "off"},
    }
    file = folder / "merge.yaml"
    file.write_text(json.dumps(recipe, indent=2) + "\n")  # JSON is YAML
    return file


def count_units(base: Path, adapter: Path, merged: Path) -> dict[str, object]:
    """How many weights differ from the exact sum, and by how many units at most, for each way of rounding."""
    factors = load_file(adapter / "adapter_model.safetensors")
    written = {name: array for file in merged.glob("*.safetensors") for name, array in _raw(file)}
    once, torchs, between = Off(), Off(), Off()
    for name, raw in chain.from_iterable(map(_raw, sorted(base.glob("*.safetensors")))):
        front = f"base_model.model.{name.removesuffix('.weight')}"
        if f"{front}.lora_A.weight" not in factors:
            continue
        a = factors[f"{front}.lora_A.weight"].astype(np.float64)
        b = factors[f"{front}.lora_B.weight"].astype(np.float64)
        sums = raw.view(BF16).astype(np.float64) + (b @ a) * (ALPHA / RANK)
        exact, narrow = _rounded(sums), sums.astype(np.float32).astype(BF16).view(np.uint16)
        once.count(written[name], exact)
        torchs.count(written[name], narrow)
        between.count(narrow, exact)
    return {
        "weights": once.weights,
        "rounded in one step": once.figures(),
        "rounded as torch does": torchs.figures(),
        "the two references": between.figures(),
    }


@dataclass(slots=True)
class Off:
    """Weights of bf16 that are other than they should be."""

    weights: int = 0
    off: int = 0
    above: int = 0  # by more than one unit: where base and update nearly cancel
    most: int = 0

    def count(self, found: np.ndarray, wanted: np.ndarray) -> None:
        """Take one tensor in, as raw bits."""
        units = np.abs(_ordered(found) - _ordered(wanted))
        self.weights += units.size
        self.off += int(np.count_nonzero(units))
        self.above += int(np.count_nonzero(units > 1))
        self.most = max(self.most, int(units.max()))

    def figures(self) -> str:
        """In one line."""
        share = f"{self.off / self.weights:.6%} off"
        return (
            f"{share}, {self.above} of {self.weights} by more than one unit (at most {self.most})"
        )


def _rounded(sums: np.ndarray) -> np.ndarray:
    """float64 to the bits of bfloat16, to nearest and ties to even, in one step."""
    mantissa, exponent = np.frexp(sums)
    scaled = np.rint(np.ldexp(mantissa, 8))  # eight significant bits
    nearest = np.ldexp(scaled, exponent - 8).astype(np.float32)  # exact
    bits: np.ndarray = (nearest.view(np.uint32) >> 16).astype(np.uint16)
    return bits


def _ordered(raw: np.ndarray) -> np.ndarray:
    bits = raw.view(np.int16).astype(np.int32)
    ordered: np.ndarray = np.where(bits < 0, -32768 - bits, bits)
    return ordered


def _raw(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Tensors of a bf16 file as raw 16-bit integers."""
    content = np.memmap(file, np.uint8, "r")
    length = int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8 : 8 + length].tobytes())
    for name, entry in header.items():
        if name != "__metadata__":
            start, stop = (8 + length + at for at in entry["data_offsets"])
            yield name, content[start:stop].view(np.uint16).reshape(entry["shape"])


def _layer(number: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for module, shape in LINEAR.items():
        yield f"model.layers.{number}.{module}.weight", shape
    for norm in ("input_layernorm", "post_attention_layernorm"):
        yield f"model.layers.{number}.{norm}.weight", (HIDDEN,)


def _normal(generator: np.random.Generator, shape: tuple[int, ...], deviation: float) -> np.ndarray:
    values: np.ndarray = generator.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
    return values


def _run(recipe: Path, into: Path) -> list[str]:
    return hfconvert("run", str(recipe), "--output", str(into), "-q")


if __name__ == "__main__":
    main()
