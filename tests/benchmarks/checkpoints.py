"""Write a large sharded checkpoint as torch.save would, in a stream and without torch.

    python -m tests.benchmarks.checkpoints FOLDER [--bytes 2000000000] [--shards 4]

The names and proportions are those of a llama. Values are random and between 2^-7 and 2 in size, so that a
cast overflows nowhere and no two tensors are equal. The format is that of torch.serialization: a stored zip
archive with `data.pkl`, one entry a storage, and each storage at a multiple of 64 bytes.
"""

from __future__ import annotations

import argparse
import json
import struct
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

ALIGNMENT = 64
BLOCK = 4_000_000  # values made at a time


@dataclass(frozen=True, slots=True)
class Weight:
    """One fp32 tensor to be."""

    name: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Its size as fp32."""
        return 4 * prod(self.shape)


def main() -> None:
    """Write one checkpoint."""
    parser = argparse.ArgumentParser(
        description="Write a sharded fp32 checkpoint in torch's format."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bytes", type=int, default=2_000_000_000)
    parser.add_argument("--shards", type=int, default=4)
    arguments = parser.parse_args()
    write_checkpoint(arguments.folder, size=arguments.bytes, shards=arguments.shards)


def write_checkpoint(folder: Path, *, size: int, shards: int, seed: int = 0) -> list[Path]:
    """Fill a new folder with about `size` bytes in `shards` pickled files and their index."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(seed)
    weights = list(llama_weights(size))
    weight_map: dict[str, str] = {}
    files = []
    for number, part in enumerate(_split(weights, shards), 1):
        file = folder / f"pytorch_model-{number:05}-of-{shards:05}.bin"
        write_torch_zip(file, part, generator)
        weight_map.update((weight.name, file.name) for weight in part)
        files.append(file)
    total = sum(weight.nbytes for weight in weights)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=2) + "\n")
    return files


def llama_weights(size: int, layers: int = 8) -> Iterator[Weight]:
    """Embedding, layers, norm and head of about `size` bytes together, by the choice of their width."""
    # A layer has 12 width^2 values, embedding and head have 4 width^2 each.
    width = max(8, round((size / 4 / (12 * layers + 8)) ** 0.5 / 8) * 8)
    yield Weight("model.embed_tokens.weight", (4 * width, width))
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        for projection in "qkvo":
            yield Weight(f"{prefix}self_attn.{projection}_proj.weight", (width, width))
        yield Weight(f"{prefix}mlp.gate_proj.weight", (width * 8 // 3, width))
        yield Weight(f"{prefix}mlp.up_proj.weight", (width * 8 // 3, width))
        yield Weight(f"{prefix}mlp.down_proj.weight", (width, width * 8 // 3))
        yield Weight(f"{prefix}input_layernorm.weight", (width,))
        yield Weight(f"{prefix}post_attention_layernorm.weight", (width,))
    yield Weight("model.norm.weight", (width,))
    yield Weight("lm_head.weight", (4 * width, width))


def write_torch_zip(
    file: Path,
    weights: Sequence[Weight],
    generator: np.random.Generator,
    content: bytes | None = None,
) -> None:
    """One archive as torch.save writes it, a storage for each tensor.

    `content` is its pickle, where that is not a state dict of the weights.
    """
    root = file.stem
    with zipfile.ZipFile(file, "x", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{root}/data.pkl", content or state_dict_pickle(weights))
        archive.writestr(f"{root}/byteorder", b"little")
        for key, weight in enumerate(weights):
            entry = _aligned_entry(archive, f"{root}/data/{key}")
            with archive.open(entry, "w", force_zip64=True) as stream:
                for block in _values(prod(weight.shape), generator):
                    stream.write(block.data)
        archive.writestr(f"{root}/version", b"3\n")


def state_dict_pickle(weights: Sequence[Weight]) -> bytes:
    """A dict of name to tensor in pickle protocol 2, in the opcodes that torch.save uses."""
    return b"\x80\x02" + _state_dict(weights, 0) + b"."


def training_pickle(weights: Sequence[Weight]) -> bytes:
    """A checkpoint as Lightning writes it: a third of the weights is the model, the rest Adam's moments."""
    count = len(weights) // 3
    moments = b"".join(
        _integer(number) + _state_dict(pair, count + 2 * number)
        for number, pair in enumerate(zip(weights[count::2], weights[count + 1 :: 2], strict=True))
    )
    optimizer = b"}(" + _text("state") + b"}(" + moments + b"u" + _text("param_groups") + b"]u"
    items = _text("epoch") + _integer(1) + _text("state_dict") + _state_dict(weights[:count], 0)
    items += _text("optimizer_states") + b"](" + optimizer + b"e"
    items += _text("pytorch-lightning_version") + _text("2.6.6")
    return b"\x80\x02}(" + items + b"u."


def _state_dict(weights: Sequence[Weight], first: int) -> bytes:
    """A dict on the stack; its storages are numbered from `first` on."""
    tensors = (_text(one.name) + _tensor(key, one) for key, one in enumerate(weights, start=first))
    return b"}(" + b"".join(tensors) + b"u"


def _tensor(key: int, weight: Weight) -> bytes:
    """`torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)`."""
    strides = tuple(prod(weight.shape[axis + 1 :]) for axis in range(len(weight.shape)))
    storage = (
        b"(" + _text("storage") + b"ctorch\nFloatStorage\n" + _text(str(key)) + _text("cpu")
    ) + (_integer(prod(weight.shape)) + b"tQ")
    hooks = b"ccollections\nOrderedDict\n)R"
    arguments = (
        storage + _integer(0) + _integers(weight.shape) + _integers(strides) + b"\x89" + hooks
    )
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + arguments + b"tR"


def _text(value: str) -> bytes:
    encoded = value.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def _integer(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _integers(values: Sequence[int]) -> bytes:
    return b"(" + b"".join(map(_integer, values)) + b"t"


def _aligned_entry(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    """An entry whose data starts at a multiple of 64, by a padding field as torch's writer adds."""
    entry = zipfile.ZipInfo(name)
    header = 30 + len(name) + 20  # local header, name, the ZIP64 field that zipfile puts in front
    assert archive.fp is not None
    padding = -(archive.fp.tell() + header + 4) % ALIGNMENT
    entry.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
    return entry


def _values(count: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    for start in range(0, count, BLOCK):
        bits = generator.integers(2**32, size=min(BLOCK, count - start), dtype=np.uint32)
        bits &= np.uint32(0x83FFFFFF)  # sign, the low exponent bits, mantissa
        bits |= np.uint32(0x3C000000)
        yield bits


def _split(weights: Sequence[Weight], count: int) -> Iterator[list[Weight]]:
    """Consecutive parts of about equal size, none empty."""
    total = sum(weight.nbytes for weight in weights)
    parts: list[list[Weight]] = [[] for _ in range(count)]
    done = 0
    for weight in weights:
        parts[min(count - 1, done * count // total)].append(weight)
        done += weight.nbytes
    yield from parts


if __name__ == "__main__":
    main()
