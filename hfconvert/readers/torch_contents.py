"""A PyTorch file as the contents that every reader gives."""

from __future__ import annotations

from hfconvert.readers.contents import Contents, OtherTensor, PickleFacts
from hfconvert.readers.state_dict import OPTIMIZERS, read_sets
from hfconvert.readers.torch_file import read_torch
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.source import ByteSource


def read_torch_contents(source: ByteSource) -> Contents:
    """Sets of weights, other tensors and the imports of a PyTorch file. UserError (exit 3)."""
    file = read_torch(source)
    found = read_sets(file.tree, source.name)
    return Contents(
        format="torch",
        container=file.container,
        sets=found.sets,
        others=tuple(_other(name, tensor) for name, tensor in found.others.items()),
        pickle=PickleFacts(file.imports, file.stubbed),
        findings=file.findings + found.findings,
    )


def _other(name: str, tensor: LazyTensor) -> OtherTensor:
    parts = set(name.split("."))
    # The state of an optimizer alone in its file stands under `state`, beside `param_groups`.
    optimizer = bool(parts & set(OPTIMIZERS)) or name.startswith("state.")
    return OtherTensor(name, "optimizer" if optimizer else "other", tensor.spec)
