"""The formats of a single file: found by content, never by name. The registry is one dict."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hfconvert.readers.contents import Contents
from hfconvert.readers.safetensors_file import read_safetensors
from hfconvert.readers.torch_contents import read_torch_contents
from hfconvert.readers.torch_sniff import HEAD, name_stranger, recognize
from hfconvert.tensors.header import MAX_HEADER
from hfconvert.tensors.source import ByteSource, read

FORMATS: Mapping[str, Callable[[ByteSource], Contents]] = {
    "safetensors": read_safetensors,
    "torch": read_torch_contents,
    "lightning": read_torch_contents,
}


def read_file(source: ByteSource, format_name: str) -> Contents:
    """Read what a file holds. `format_name` is a key of FORMATS or `auto`. UserError (exit 3)."""
    name = sniff(source) if format_name == "auto" else format_name
    if name == "safetensors":
        _check_no_stranger(source)
    return FORMATS[name](source)


def sniff(source: ByteSource) -> str:
    """The format that the first bytes of a file speak of; where they do not speak, its name decides."""
    if source.size < 9:
        return "safetensors" if source.name.endswith(".safetensors") else "torch"
    head = read(source, 0, 9)
    length = int.from_bytes(head[:8], "little")
    if head[8:9] == b"{" and length <= min(MAX_HEADER, source.size):
        return "safetensors"
    zipped = head.startswith(b"PK\x03\x04")
    pickled = head[0] == 0x80 and head[1] in range(2, 6)
    named = source.name.endswith(".safetensors")
    return "safetensors" if named and not (zipped or pickled) else "torch"


def _check_no_stranger(source: ByteSource) -> None:
    """UserError (exit 3) for a pointer, a page or a file of another format under this name."""
    head = bytes(read(source, 0, min(source.size, HEAD)))
    found = recognize(head)
    if found is not None and found.known and head[8:9] != b"{":
        raise name_stranger(source, head)
