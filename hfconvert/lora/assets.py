"""Files of an adapter that belong beside the merged model: its tokenizer and its chat template."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from hfconvert.findings import Finding, info
from hfconvert.tensors.source import LocalFile

_TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "*.tiktoken",
    "chat_template.*",
)


def adapter_assets(root: Path) -> tuple[LocalFile, ...]:
    """Tokenizer and template of an adapter's folder; nothing where the adapter is one of many files there."""
    names = sorted(path.name for path in root.iterdir() if path.is_file())
    return tuple(LocalFile.of(root / name, name) for name in names if _belongs(name))


def said_of_assets(label: str, root: Path) -> Iterator[Finding]:
    """That the adapter's files take the place of the base's."""
    names = [file.name for file in adapter_assets(root)]
    if names:
        message = f"brings {', '.join(names)}, which take the place of the base's"
        yield info("files", label, message)


def _belongs(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in _TOKENIZER)
