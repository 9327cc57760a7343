"""Golden logits: token ids and what the model gave for them elsewhere, in one file.

`input_ids` is [inputs, positions] (or one input's [positions]), `logits` the same with the values behind. The
file is safetensors, numpy's .npz, or JSON with lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfconvert.checks.logits.inputs import Inputs
from hfconvert.checks.logits.measure import Output
from hfconvert.checks.logits.sides import Computed

NEEDED = ("input_ids", "logits")


class GoldenError(Exception):
    """The file holds no golden logits."""


def read_golden(path: Path) -> tuple[Inputs, Computed]:
    """The inputs and the reference's output for them. GoldenError where the file is another."""
    import torch

    arrays = _arrays(path)
    ids, logits = arrays["input_ids"].astype(np.int64), arrays["logits"].astype(np.float32)
    if ids.ndim == 1:
        ids, logits = ids[None], logits[None]
    if ids.ndim != 2 or logits.shape[:2] != ids.shape or logits.ndim != 3:
        raise GoldenError(
            f"input_ids is {list(ids.shape)} and logits {list(logits.shape)}: "
            "they have to be [inputs, positions] and [inputs, positions, values]"
        )
    batches = tuple(
        {"input_ids": torch.from_numpy(one[None]), "attention_mask": torch.ones(1, len(one))}
        for one in ids
    )
    labels = tuple(f"{path.name}, input {number}" for number in range(1, len(ids) + 1))
    outputs: tuple[Output, ...] = tuple(logits)
    return Inputs(batches, labels, is_text=True), Computed("logits", outputs, ())


def _arrays(path: Path) -> Mapping[str, NDArray[Any]]:
    try:
        arrays = _READERS[path.suffix](path)
    except KeyError:
        raise GoldenError(f"{path.name} is no .safetensors, .npz or .json file") from None
    except Exception as error:
        raise GoldenError(f"{path.name} cannot be read: {error}") from error
    missing = [name for name in NEEDED if name not in arrays]
    if missing:
        raise GoldenError(f"{path.name} has no {' and no '.join(missing)}")
    return arrays


def _safetensors(path: Path) -> Mapping[str, NDArray[Any]]:
    from safetensors.torch import load_file  # noqa: PLC0415 - it imports torch

    found = load_file(path)
    return {name: found[name].to(_wide(name)).numpy() for name in NEEDED if name in found}


def _wide(name: str) -> Any:
    import torch

    return torch.int64 if name == "input_ids" else torch.float32


def _npz(path: Path) -> Mapping[str, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in NEEDED if name in file}


def _json(path: Path) -> Mapping[str, NDArray[Any]]:
    document = json.loads(path.read_bytes())
    return {name: np.asarray(document[name]) for name in NEEDED if name in document}


_READERS = {".safetensors": _safetensors, ".npz": _npz, ".json": _json}
