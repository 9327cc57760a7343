"""The formats of a single file: found by content, never by name. The registry is one dict."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hfconvert.readers.contents import Contents
from hfconvert.readers.safetensors_file import read_safetensors
from hfconvert.readers.torch_contents import read_torch_contents
from hfconvert.tensors.header import MAX_HEADER
from hfconvert.tensors.source import ByteSource, read

FORMATS: Mapping[str, Callable[[ByteSource], Contents]] = {
    "safetensors": read_safetensors,
    "torch": read_torch_contents,
    "lightning": read_torch_contents,
}


def read_file(source: ByteSource, format_name: str) -> Contents:
    """Read what a file holds. `format_name` is a key of FORMATS or `auto`. UserError (exit 3)."""
    return FORMATS[sniff(source) if format_name == "auto" else format_name](source)


def sniff(source: ByteSource) -> str:
    """The format that the first bytes of a file speak of; `torch` where they do not say safetensors."""
    if source.name.endswith(".safetensors"):
        return "safetensors" if not _zip(source) else "torch"
    if source.size < 9:
        return "torch"
    head = read(source, 0, 9)
    length = int.from_bytes(head[:8], "little")
    return (
        "safetensors" if head[8:9] == b"{" and length <= min(MAX_HEADER, source.size) else "torch"
    )


def _zip(source: ByteSource) -> bool:
    return source.size >= 4 and bytes(read(source, 0, 4)) == b"PK\x03\x04"
