"""Files that are no checkpoint, each named for what it is."""

from __future__ import annotations

import re

from hfconvert.errors import UserError
from hfconvert.readers.torch_found import refused
from hfconvert.tensors.source import ByteSource

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid (\S{1,100})\nsize (\d{1,20})\n"
)

# What the first bytes say, by the specifications of these formats.
_KINDS = (
    (b"GGUF", "a GGUF file of llama.cpp"),
    (b"ggml", "a GGML file of llama.cpp"),
    (b"lmgg", "a GGML file of llama.cpp"),
    (b"fmgg", "a GGML file of llama.cpp"),
    (b"tjgg", "a GGML file of llama.cpp"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras)"),
    (b"\x93NUMPY", "a numpy array file"),
    (b"\x08\x00\x00\x00TFL3", "a TensorFlow Lite model"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a PNG picture"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"Rar!", "a RAR archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
)
_MARKUP = (b"<!doctype", b"<html", b"<?xml", b"<head", b"<error")


def name_stranger(source: ByteSource, head: bytes) -> UserError:
    """Why a file without any sign of a checkpoint is refused, as exactly as its first bytes tell."""
    pointer = _POINTER.match(head)
    if not head:
        return refused(source, "the file is empty", why="a download or a copy was interrupted")
    if pointer:
        return _pointer(source, pointer)
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith(_MARKUP):
        return refused(
            source,
            "it is an HTML or XML page, not a checkpoint",
            why="the server answered with an error or login page and it was saved under this name",
            do="fetch the file again, logged in where that is needed",
        )
    for magic, kind in _KINDS:
        if head.startswith(magic):
            return _other(source, f"it is {kind}, not a PyTorch checkpoint")
    if head.startswith((b"{", b"[")) and _is_text(head):
        return _other(source, "it is JSON, not a checkpoint")
    return _other(source, f"it is not a checkpoint: {source.size} bytes of no known format")


def _pointer(source: ByteSource, pointer: re.Match[bytes]) -> UserError:
    oid, size = pointer.group(1).decode("ascii", "replace"), int(pointer.group(2))
    return refused(
        source,
        f"it is a Git LFS pointer, {source.size} bytes; expected {size} bytes, oid {oid}",
        why="the repository was cloned without Git LFS, so that only pointers came",
        do="run `git lfs pull` there, or fetch the file from the Hub",
    )


def _other(source: ByteSource, what: str) -> UserError:
    return refused(
        source,
        what,
        why="its name does not say what it is",
        do="name the checkpoint itself in source.files",
    )


def _is_text(head: bytes) -> bool:
    return all(byte >= 32 or byte in b"\t\r\n" for byte in head)
