"""Files beside the weights: configuration, tokenizer, processor, template, custom code, papers.

They are copied byte for byte. Weights in any format and what only a training run needs are left out, and
what is left out is listed.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from hfconvert.errors import UserError, unreadable_problem
from hfconvert.readers.layout import NO_WEIGHTS
from hfconvert.tensors.source import LocalFile

RECORD = "hfconvert.json"  # what a result of hfconvert carries

# Weights of any framework, and their indexes.
_WEIGHTS = (
    "*.safetensors",
    "*.bin",
    "*.pt",
    "*.pth",
    "*.ckpt",
    "*.pkl",
    "*.h5",
    "*.msgpack",
    "*.onnx",
    "*.onnx_data",
    "*.gguf",
    "*.ggml",
    "*.ot",
    "*.tflite",
    "*.distcp",
    "*.nemo",
    "*.index.json",
    "*.index.*.json",
    "tf_model.*",
    "model.ckpt.*",
)
_TRAINING = (
    "trainer_state.json",
    "events.out.tfevents.*",
    RECORD,
    "*.part",
)
# What a training run writes beside the weights, unless its ending says that it is text.
_STATES = tuple(pattern for pattern in NO_WEIGHTS if pattern != "tokenizer*")
_TEXT = (".json", ".yaml", ".yml", ".txt", ".md", ".py")
_TEMPLATES = "additional_chat_templates"  # the one folder of text that loaders look into
_FOLDERS = (".*", "checkpoint-*", "global_step*", "iter_*", "runs", "logs", "__pycache__", "wandb")
# Beside a single file that was named, only files that loaders know by name belong to it.
_KNOWN = (
    "config.json",
    "generation_config.json",
    "*tokenizer*.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*processor_config.json",
    "chat_template.*",
    "additional_chat_templates/*",
    "adapter_config.json",
    "README.md",
    "LICENSE*",
)


@dataclass(frozen=True, slots=True)
class SideFiles:
    """Files to copy, by their place within the source, and the names of those that are left out.

    `unusable` are links that lead nowhere and names that are no text.
    """

    copied: tuple[LocalFile, ...]
    left_out: tuple[str, ...]
    unusable: tuple[str, ...] = ()


def side_files(root: Path, read: Iterable[str], *, alone: bool) -> SideFiles:
    """The side files of a folder whose weights are the files `read`.

    `alone` says that one file was named and not its folder: then only files with names that loaders know
    are taken, and nothing is said of the others. Hidden files are passed over; links to files are read
    through. UserError (exit 3) where a file or folder may not be looked at.
    """
    try:
        return _side_files(root, set(read), alone=alone)
    except OSError as error:
        raise UserError(unreadable_problem(root, error)) from error


def is_side_file(name: str) -> bool:
    """Whether a file of this place in a folder is copied beside the weights, by its name alone."""
    *folders, last = name.split("/")
    hidden = last.startswith(".") or any(_matches(folder, _FOLDERS) for folder in folders)
    return not hidden and not _is_left_out(last)


def _is_left_out(last: str) -> bool:
    """Whether a file of this name holds weights, or the state of a training run."""
    state = _matches(last, _STATES) and not last.endswith(_TEXT)
    return state or _matches(last, (*_WEIGHTS, *_TRAINING))


def _side_files(root: Path, weights: Container[str], *, alone: bool) -> SideFiles:
    copied, left_out, unusable = [], [], []
    for name in sorted(_walk(root, deep=not alone)):
        if name in weights or (alone and not _matches(name, _KNOWN)):
            continue
        if not alone and _is_left_out(name.rpartition("/")[2]):
            left_out.append(name)
        elif _is_text(name) and (root / name).is_file():
            copied.append(LocalFile.of(root / name, name))
        else:
            unusable.append(ascii(name)[1:-1])
    return SideFiles(tuple(copied), tuple(left_out), tuple(unusable))


def _walk(root: Path, *, deep: bool) -> Iterator[str]:
    """Files below a folder by their place in it; links to folders and results of ours are passed over."""
    for folder, folders, files in os.walk(root, onerror=_raise):
        folders[:] = [
            name
            for name in sorted(folders)
            if (deep or name == _TEMPLATES)
            and not _matches(name, _FOLDERS)
            and not _is_result(Path(folder) / name)
        ]
        for name in files:
            path = Path(folder) / name
            if not name.startswith(".") and (path.is_file() or path.is_symlink()):
                yield path.relative_to(root).as_posix()


def _is_result(folder: Path) -> bool:
    """Whether a run of ours made the folder; one that may not be searched is said when it is listed."""
    try:
        return (folder / RECORD).exists()
    except PermissionError:
        return False


def _raise(error: OSError) -> None:
    raise error  # os.walk passes over a folder that it may not read: its files would be lost silently


def _is_text(name: str) -> bool:
    """Whether a name can stand in a document, and so in a repository: bytes that are no UTF-8 cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
