"""PyTorch files of every kind, found by content and read without executing a byte of them."""

from __future__ import annotations

from collections.abc import Mapping

from hfconvert.readers.torch_found import Checksum, TorchFile, refused
from hfconvert.readers.torch_sniff import name_stranger
from hfconvert.readers.torch_zip import Entry, read_directory
from hfconvert.readers.torch_zip_file import read_torch_zip
from hfconvert.tensors.source import ByteSource, read

__all__ = ["Checksum", "TorchFile", "read_torch"]

_HEAD = 512


def read_torch(source: ByteSource) -> TorchFile:
    """Read what the file describes. UserError (exit 3) for anything that is no whole PyTorch file."""
    head = bytes(read(source, 0, min(source.size, _HEAD)))
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06") or _ends_as_zip(source):
        return _read_zip(source)
    raise name_stranger(source, head)


def _ends_as_zip(source: ByteSource) -> bool:
    """Whether a zip ends the file, with other bytes before it."""
    return (
        source.size >= 22
        and bytes(read(source, source.size - 22, source.size - 18)) == b"PK\x05\x06"
    )


def _read_zip(source: ByteSource) -> TorchFile:
    entries = read_directory(source)
    pickles = [name for name in entries if _is_pickle(name)]
    if len(pickles) == 1:
        return read_torch_zip(source, entries, pickles[0])
    raise refused(
        source,
        _told(entries, pickles),
        why="it is a zip of something else",
        do="name the checkpoint itself",
    )


def _is_pickle(name: str) -> bool:
    return name == "data.pkl" or name.endswith("/data.pkl")


def _told(entries: Mapping[str, Entry], pickles: list[str]) -> str:
    if pickles:
        return f"it is a zip with several checkpoints: {', '.join(pickles[:5])}"
    return f"it is a zip without data.pkl; it has {', '.join(list(entries)[:5]) or 'nothing'}"
