"""What part a file plays in a folder, by its name; which library a folder is for; wrappers in names."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from hfconvert.keymap.prefixes import WRAPPERS
from hfconvert.readers.layout import FAMILIES

Role = Literal["weights", "optimizer", "other"]

# Files beside weights, by their names: what they are in words. The first match counts.
_NOTES = (
    ("optimizer*", "state of an optimizer"),
    ("*optim_states.pt", "state of an optimizer, by DeepSpeed"),
    ("scheduler*", "state of a scheduler"),
    ("rng_state*", "state of random numbers"),
    ("random_states*", "state of random numbers"),
    ("scaler*", "state of a gradient scaler"),
    ("training_args.bin", "arguments of the Trainer"),
    ("trainer_state.json", "log of the Trainer"),
    ("*.index.json", "index of shards"),
    ("config.json", "configuration of the model"),
    ("generation_config.json", "defaults of generation"),
    ("adapter_config.json", "configuration of an adapter"),
    ("tokenizer*", "tokenizer"),
    ("*preprocessor_config.json", "processor"),
    ("tf_model*.h5", "weights for TensorFlow"),
    ("flax_model*.msgpack", "weights for Flax"),
    ("rust_model.ot", "weights for rust-bert"),
    ("*.data-?????-of-?????", "weights for TensorFlow"),
    ("saved_model.pb", "a model of TensorFlow"),
    ("*.distcp", "a part of a torch.distributed checkpoint"),
    ("*.onnx", "an ONNX model"),
    ("*.onnx_data", "weights of an ONNX model"),
    ("hfconvert.json", "record of a conversion"),
)
# Endings of files that are opened though loaders do not look for them: they are pickles, or hold one.
_PICKLES = frozenset({".th", ".pkl", ".pickle", ".jit", ".ptl", ".pdparams", ".joblib", ".dill"})


def note_of(name: str) -> str:
    """What a file is by its name, in words; nothing where its name does not tell."""
    base = name.rpartition("/")[2]
    return next((note for pattern, note in _NOTES if fnmatchcase(base, pattern)), "")


def is_optimizer(name: str) -> bool:
    """Whether the name is that of a file with the state of an optimizer."""
    return note_of(name).startswith("state of an optimizer")


def may_be_pickle(name: str) -> bool:
    """Whether the name is one under which checkpoints and pickles come."""
    return Path(name).suffix in _PICKLES or Path(name).suffix in FAMILIES


def library_of(root: Path) -> str | None:
    """The library that a folder is laid out for, by the files that it looks for."""
    marks = {
        "adapter_config.json": "peft",
        "modules.json": "sentence-transformers",
        "model_index.json": "diffusers",
        "open_clip_config.json": "open_clip",
        "config.json": "transformers",
    }
    return next((library for file, library in marks.items() if (root / file).is_file()), None)


def wrappers_in(names: Iterable[str]) -> list[str]:
    """The wrappers of torch and DeepSpeed whose prefixes stand in the names."""
    known = list(names)
    return [
        wrapper
        for wrapper in WRAPPERS
        if any(name.startswith(wrapper) or f".{wrapper}" in name for name in known)
    ]
