"""Safetensors files: the header is read and checked, the data stays where it is."""

from __future__ import annotations

from hfconvert.readers.contents import Contents, WeightSet
from hfconvert.tensors.header import read_header
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.source import ByteSource


def read_safetensors(source: ByteSource) -> Contents:
    """Names and places of all tensors of the file. UserError (exit 3) where the file is not sound."""
    header = read_header(source)
    tensors = {entry.name: Leaf.packed(entry.spec, source, entry.start) for entry in header.entries}
    return Contents(
        format="safetensors",
        container="safetensors",
        sets=(WeightSet("", tensors),),
        default="",
        metadata=header.metadata or {},
    )
