"""PyTorch files of every kind, found by content and read without executing a byte of them."""

from __future__ import annotations

from collections.abc import Mapping

from hfconvert.readers.torch_archive import packing, read_archive, read_packed
from hfconvert.readers.torch_found import Checksum, TorchFile, refused
from hfconvert.readers.torch_legacy import read_torch_pickle
from hfconvert.readers.torch_script import (
    is_script,
    package_top,
    read_torch_package,
    read_torch_script,
)
from hfconvert.readers.torch_sniff import HEAD, name_stranger
from hfconvert.readers.torch_sources import section
from hfconvert.readers.torch_tar import is_legacy_tar, is_tar, read_legacy_tar, read_members
from hfconvert.readers.torch_zip import Entry, read_directory
from hfconvert.readers.torch_zip_file import read_torch_zip
from hfconvert.tensors.header import MAX_HEADER, read_header
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.source import ByteSource, read

__all__ = ["Checksum", "TorchFile", "read_torch"]

_MAX_NESTING = 3


def read_torch(source: ByteSource) -> TorchFile:
    """Read what the file describes. UserError (exit 3) for anything that is no whole PyTorch file."""
    return _read(source, _MAX_NESTING)


def _read(source: ByteSource, nesting: int) -> TorchFile:
    if nesting < 0:
        raise refused(source, "it is an archive in an archive in an archive, and so on")
    head = bytes(read(source, 0, min(source.size, HEAD)))
    if _is_safetensors(source, head):
        return _read_safetensors(source)
    kind = packing(head)
    if kind:
        return read_packed(source, kind, lambda inner: _read(inner, nesting - 1))
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06") or _ends_as_zip(source):
        return _read_zip(source, nesting)
    if is_tar(head):
        return _read_tar(source, nesting)
    found = read_torch_pickle(source) if head else None
    if found is None:
        raise name_stranger(source, head)
    return found


def _read_zip(source: ByteSource, nesting: int) -> TorchFile:
    source, entries = read_directory(source)
    tops = _tops(entries)
    if len(tops) > 1:
        listed = ", ".join(repr(top) for top in tops[:5])
        raise refused(source, f"it is a zip with checkpoints in several folders: {listed}")
    if tops and is_script(entries, tops[0]):
        return read_torch_script(source, entries, tops[0])
    if tops:
        return read_torch_zip(source, entries, tops[0])
    package = package_top(entries)
    if package is not None:
        return read_torch_package(source, entries, package)
    return read_archive(
        source, "zip", _files(source, entries), lambda inner: _read(inner, nesting - 1)
    )


def _read_tar(source: ByteSource, nesting: int) -> TorchFile:
    members = read_members(source)
    if is_legacy_tar(members):
        return read_legacy_tar(source, members)
    return read_archive(source, "tar", members, lambda inner: _read(inner, nesting - 1))


def _read_safetensors(source: ByteSource) -> TorchFile:
    header = read_header(source)
    tree = {entry.name: Leaf.packed(entry.spec, source, entry.start) for entry in header.entries}
    return TorchFile("safetensors", tree)


def _is_safetensors(source: ByteSource, head: bytes) -> bool:
    size = int.from_bytes(head[:8], "little")
    return head[8:9] == b"{" and 2 <= size <= min(MAX_HEADER, source.size - 8)


def _ends_as_zip(source: ByteSource) -> bool:
    """Whether a zip ends the file, with other bytes before it."""
    return (
        source.size >= 22
        and bytes(read(source, source.size - 22, source.size - 18)) == b"PK\x05\x06"
    )


def _tops(entries: Mapping[str, Entry]) -> list[str]:
    """The folders of the `data.pkl` that lie least deep."""
    tops = [name[: -len("data.pkl")] for name in entries if f"/{name}".endswith("/data.pkl")]
    depth = min((top.count("/") for top in tops), default=0)
    return [top for top in tops if top.count("/") == depth]


def _files(source: ByteSource, entries: Mapping[str, Entry]) -> dict[str, ByteSource]:
    return {
        name: section(source, entry) for name, entry in entries.items() if not name.endswith("/")
    }
