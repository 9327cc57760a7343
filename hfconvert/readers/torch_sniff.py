"""Files that are no checkpoint, each named for what it is by its first bytes."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from dataclasses import dataclass

from hfconvert.errors import UserError
from hfconvert.readers.torch_found import refused
from hfconvert.tensors.source import ByteSource

HEAD = 512  # bytes that tell what a file is
DAMAGED = frozenset(
    {"empty", "lfs-pointer", "html"}
)  # in the place of the file that should be there

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]{1,200}\n){0,9}"
    rb"oid (\S{1,100})\nsize (\d{1,20})\n"
)

# What the first bytes say, by the specifications of these formats.
_KINDS = (
    (b"GGUF", "gguf", "a GGUF file of llama.cpp"),
    (b"ggml", "ggml", "a GGML file of llama.cpp"),
    (b"lmgg", "ggml", "a GGML file of llama.cpp"),
    (b"fmgg", "ggml", "a GGML file of llama.cpp"),
    (b"tjgg", "ggml", "a GGML file of llama.cpp"),
    (b"\x89HDF\r\n\x1a\n", "hdf5", "an HDF5 file (Keras)"),
    (b"\x93NUMPY", "npy", "a numpy array file"),
    (b"%PDF", "pdf", "a PDF"),
    (b"\x89PNG", "png", "a PNG picture"),
    (b"\x7fELF", "program", "a program"),
    (b"MZ", "program", "a program"),
    (b"Rar!", "rar", "a RAR archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z", "a 7z archive"),
)
# Formats without a magic number: how their first fields look.
_FORMS = (
    (re.compile(rb".{4}TFL3", re.DOTALL), "tflite", "a TensorFlow Lite model"),
    # binary version, length of the name, name of the model's specification
    (
        re.compile(rb"[\1-\x20]\0\0\0.\0\w{1,60}Spec\0", re.DOTALL),
        "ctranslate2",
        "a CTranslate2 model",
    ),
    # ModelProto: ir_version, then producer, opset or graph
    (re.compile(rb"\x08[\1-\x20][\x12\x1a\x22\x3a\x42]", re.DOTALL), "onnx", "an ONNX model"),
    # a small map whose first key is a string; pickles begin with \x80
    (re.compile(rb"[\x81-\x8f][\xa1-\xbf][ -~]"), "msgpack", "a msgpack file (Flax)"),
)
_JSON = re.compile(rb"\s*(\{\s*[\"}]|\[\s*[\[{\"\]\-0-9tfn])")
_MARKUP = (b"<!doctype", b"<html", b"<?xml", b"<head", b"<error")


@dataclass(frozen=True, slots=True)
class Stranger:
    """What a file is that is no checkpoint: a short code, and words for a message.

    `known` says that its first bytes are those of that format beyond doubt.
    """

    code: str
    told: str
    known: bool = True


def recognize(head: bytes) -> Stranger | None:
    """What the first bytes of a file say that it is, None where they say nothing.

    Checkpoints of PyTorch and safetensors are not looked for: ask for those first.
    """
    if not head:
        return Stranger("empty", "an empty file")
    if _POINTER.match(head):
        return Stranger("lfs-pointer", "a Git LFS pointer")
    return _by_magic(head) or _as_text(head)


def name_stranger(source: ByteSource, head: bytes) -> UserError:
    """Why a file without any sign of a checkpoint is refused, as exactly as its first bytes tell."""
    found = recognize(head)
    code = found.code if found else ""
    pointer = _POINTER.match(head)
    if code == "empty":
        return refused(source, "the file is empty", why="a download or a copy was interrupted")
    if pointer:
        return _pointer(source, pointer)
    if code == "html":
        return refused(
            source,
            "it is an HTML or XML page, not a checkpoint",
            why="the server answered with an error or login page and it was saved under this name",
            do="fetch the file again, logged in where that is needed",
        )
    if found and code != "text":
        return _other(source, f"it is {found.told}, not a PyTorch checkpoint")
    return _other(source, f"it is not a checkpoint: {source.size} bytes of no known format")


def _by_magic(head: bytes) -> Stranger | None:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith(_MARKUP):
        return Stranger("html", "an HTML or XML page")
    magics = (Stranger(code, told) for magic, code, told in _KINDS if head.startswith(magic))
    forms = (Stranger(code, told) for form, code, told in _FORMS if form.match(head))
    return next(magics, None) or next(forms, None)


def _as_text(head: bytes) -> Stranger | None:
    if not _is_text(head):
        return None
    if _JSON.match(head):
        return Stranger("json", "JSON", known=False)
    return Stranger("text", "text", known=False)


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
    """Whether it is UTF-8 without control characters; the last character may be cut off."""
    if not all(byte >= 32 or byte in b"\t\r\n\f" for byte in head):
        return False
    try:
        getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True
